#pragma once
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Vectors that cross short rows, where some inputs are the same for each row: so many of them that the next begin a
/// row again, so that what they take of these inputs is the same for each iteration, and loaded once.
///
///   for i in 0..100: for j in 0..3:         for f in 0..6: unrolled for k in 0..3: vectorized for l in 0..16:
///     out[i, j] = x[i, j] * scale[j]   ->     out[(f*48 + k*16 + l) // 3, (k*16 + l) % 3] = .. * scale[(k*16 + l) % 3]
///
/// So may inputs be that have one element for each row of less than a vector, in a row themselves.
///
/// `loops` are the block's own and `iters` what they drive, the innermost along the rows. False where rows fill vectors
/// well, or something else moves from row to row than what lies in one piece.
bool repeat_rows(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                 const std::vector<LoopRef>& loops, const std::vector<size_t>& iters);

}  // namespace lathe
