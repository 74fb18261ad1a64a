#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a reduction over windows write its results in the order in which its operand lies, where vectors would else find
/// neighbours in the one or in the other: rows whose channels come last, of which results are wanted channel by
/// channel. What reads them, or a copy, turns them around.
///
///   out[c, i, j] += x[i + r, j + s, c] * w[c, r, s]   ->   sum[i, j, c] += x[i + r, j + s, c] * w[c, r, s]
///                                                          out[c, i, j] = sum[i, j, c]
///
/// Runs once padding is apart, and before what stands in the way of vectors along the results is copied.
void lay_results(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
