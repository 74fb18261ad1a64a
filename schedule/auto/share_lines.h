#pragma once
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Walks as many rows at once of what no vectors walk as a line of what lies across them holds, where more than a
/// core's own caches hold is read: each line is then read once for all of its elements.
///
///   for i in 0..32: for j: for k in 0..3:       for io in 0..2: for j: for k in 0..3: for ii in 0..16:
///     out[i, j, k] = x[k, j, i]           ->      out[io*16 + ii, j, k] = x[k, j, io*16 + ii]
///
/// `loops` are the block's own and `iters` what they drive.
void share_lines(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                 const std::vector<LoopRef>& loops, const std::vector<size_t>& iters);

}  // namespace lathe
