#pragma once
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies elements that an index picks out of rows, one by one, a few rows for each index: what is done for the index,
/// and the loop, is shared between them, where a vector of them takes longer than as many loads.
///
///   for i in 0..100: for j in 0..50:           for io in 0..25: for j in 0..50: unrolled for ii in 0..4:
///     out[i, j] = x[i, index[j]]         ->      out[io*4 + ii, j] = x[io*4 + ii, index[j]]
///
/// Applies to a block that does nothing else, of which `loops` are its own and `iters` what they drive; `along` is the
/// loop of the indices. False where no loop over rows divides, or a primitive refuses.
bool pick_rows(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
               const std::vector<LoopRef>& loops, const std::vector<size_t>& iters, size_t along);

}  // namespace lathe
