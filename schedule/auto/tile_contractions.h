#pragma once
#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Tiles reductions whose operands are reused, or that can be vectorized along a space iter, into registers. The
/// element-wise block that reads the result, if it is the only one, is fused behind the reduction and applied to the
/// tile before the one store; otherwise a copy takes its place.
///
/// Contiguous along a space iter (x · W):
///   for columns, rows: { for k: for row: for vector: acc += a * b;   for row: for vector: out = epilogue(acc) }
/// Contiguous along the reduce iter only (x · Wᵀ): the reduce iter is vectorized through rfactor, and lanes are folded
/// when the tile is done.
void tile_contractions(RuleContext& context);

/// Does tile_contractions take a reduction of this shape?
bool worth_tiling(const RuleContext& context, const BlockRef& ref, const ReductionShape& shape);

}  // namespace lathe
