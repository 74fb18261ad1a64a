#pragma once
#include <cstdint>

#include "schedule/schedule.h"

namespace lathe {

/// Turns a short reduction along memory into vector loads, their combination, and one reduce_* intrinsic.
///
///   for l in 0..32:                                   block C(i):
///     block C(i; l): C[i] += P[i, l]         ->         C[i] = reduce_add(P[i, 0..16] + P[i, 16..32])
///
/// Vectors combine by halves, first with the one half the count behind, as the intrinsic does with lanes.
///
/// Requires:
///   1. the reducer is one that reduce_lanes knows: add, mul, min, max, logical_and, logical_or of one value; one that
///      passes over NaN has terms that are such extremes themselves
///   2. block has one reduce iter, over [0, n) with n constant, bound to a loop of its own that holds nothing else
///   3. n is a multiple of lanes, and both are powers of two
///   4. the term is a Load without a mask, whose last index is the reduce iter and whose other indices do not use it
void fold_lanes(Schedule& schedule, const BlockRef& block, std::int64_t lanes);

}  // namespace lathe
