#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Cuts long reductions with few results into parts: so that there is something to share out, so that no chain of
/// additions of floats gets long, and so that short pieces of memory are read in its order.
///
///   for i: y += x[i]     ->     for p in 0..8: for i: y_rf[p] += x[p * 512 + i];   for p: y += y_rf[p]
///
/// How many parts there are depends on the extents and the device alone, and not on the number of threads: neither do
/// results.
void share_reductions(RuleContext& context);

/// Has a reduction's loop `part` be one over parts, outermost, whose partial results are added up behind; returns what
/// makes these.
BlockRef make_parts(RuleContext& context, const BlockRef& ref, const LoopRef& part);

/// Cuts sums over the same domains, with the same loops, alike where the first is to be cut; returns what makes the
/// parts of each, or nothing.
std::vector<BlockRef> share_alike(RuleContext& context, const std::vector<BlockRef>& sums);

}  // namespace lathe
