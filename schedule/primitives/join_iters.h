#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Makes one iter of two that walk memory one behind the other, with one loop; the inverse of split_iter. Vectors then
/// cross from one row to the next.
///
///   for i in 0..128: for j in 0..9:                     for r in 0..1152:
///     block C(vi in 0..128 = i, vj in 0..9 = j):   ->     block C(vr in 0..1152 = r):
///       C[] += x[vi, vj]                                    C[] += x[vr // 9, vr % 9]
///
/// Returns the loop.
///
/// Requires:
///   1. block has only space and reduce iters, and runs over its whole domain, each iter by a serial loop of its own,
///      with no other block in the outer loop
///   2. the loops drive iters of block of the same kind, whose domains are [0, n) with n constant
///   3. the outer loop holds the inner one directly
LoopRef join_iters(Schedule& schedule, const BlockRef& block, const LoopRef& outer, const LoopRef& inner);

}  // namespace lathe
