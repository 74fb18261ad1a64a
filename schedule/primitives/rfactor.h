#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Makes partial results along a reduce loop, so that it becomes a space loop, and reduces these in the block's place.
///
///   for i:                                  for i:
///     for ko: for ki in 0..8:                 for ko: for ki in 0..8:
///       block C(i, ko*8 + ki):         ->       block C_rf(i, ki; ko): C_rf[i, ki] += A[i, ko*8 + ki]
///         C[i] += A[i, vk]                    for ki in 0..8:
///                                               block C(i; ki): C[i] += C_rf[i, ki]
///
/// The partial results get a last dimension of loop's extent. The predicate of the block stays with the new one.
/// Returns it. The sum is taken in another order, one that depends on extents alone.
///
/// Requires:
///   1. block is a reduction with an init, its body the canonical update
///   2. loop is around block, has a constant extent and starts at 0, and drives reduce iters alone
///   3. no space iter is bound to a loop that drives a reduce iter
///   4. below the outermost loop that drives a reduce iter there is no other block
///   5. the reducer folds_in_any_order, or loop is around all others that drive a reduce iter
BlockRef rfactor(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
