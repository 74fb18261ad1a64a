#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Cuts long reductions with few results into parts, so that there is something to share out:
///
///   for i: y += x[i]     ->     for p in 0..8: for i: y_rf[p] += x[p * 512 + i];   for p: y += y_rf[p]
///
/// How many parts there are depends on the extents alone, and not on the number of threads: neither do results.
void share_reductions(RuleContext& context);

}  // namespace lathe
