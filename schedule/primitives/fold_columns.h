#pragma once
#include <cstdint>

#include "schedule/schedule.h"

namespace lathe {

/// fold_lanes for several neighbours at once: their vectors are folded together, half by half, through shuffles, and
/// the results stored as one vector. Lanes meet in the order of the reduce_* intrinsics, so that the bits are those of
/// fold_lanes; a fold of 4 vectors of 16 lanes takes 15 operations instead of 36.
///
///   for j in 0..4:                              block C(i, q):
///     for l in 0..16:                     ->      C[i, q*4 .. q*4+4] = fold(P[i, q*4, ..], .., P[i, q*4+3, ..])
///       block C(i, q*4 + j; l): C[i, q*4 + j] += P[i, q*4 + j, l]
///
/// Requires:
///   1. to 4. as fold_lanes
///   5. `columns` directly holds the loop of the reduce iter alone, and its extent is a constant of at least 2 whose
///   next
///      power of two is at most lanes
///   6. one iter is bound to columns + a multiple of its extent, its domain is [0, a multiple of that extent), it is
///      the output's last index but for dimensions of one element, and nothing else is bound to columns
///   7. a condition of the predicate that uses columns says that this binding is below a multiple of the extent
void fold_columns(Schedule& schedule, const BlockRef& block, const LoopRef& columns, std::int64_t lanes);

}  // namespace lathe
