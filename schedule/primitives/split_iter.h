#pragma once
#include <cstdint>
#include <utility>

#include "schedule/schedule.h"

namespace lathe {

/// Makes two iters of one, its quotient and its remainder by `factor`, each with a loop of its own. Where a block asks
/// for these, as tiling and reshaping tensors do, it walks memory along both.
///
///   for i in 0..35:                             for io in 0..7:
///     block C(vi in 0..35 = i):                   for ii in 0..5:
///       C[vi] = x[vi % 5]               ->          block C(vio in 0..7 = io, vii in 0..5 = ii):
///                                                     C[vio*5 + vii] = x[vii]
///
/// Returns the outer loop and the inner one.
///
/// Requires:
///   1. block has only space and reduce iters, one of which loop drives over its whole domain, which is serial, and
///      holds no other block
///   2. loop drives an iter of block, whose domain is [0, n) with n constant
///   3. 1 < factor < n, and factor divides n
std::pair<LoopRef, LoopRef> split_iter(Schedule& schedule, const BlockRef& block, const LoopRef& loop,
                                       std::int64_t factor);

}  // namespace lathe
