#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Takes the filling of a padded border out of a block that chooses between a value and a constant, to a block of its
/// own before `loop`; the rest only runs inside.
///
///   for j in 0..9:                                   for j in 0..9:
///     block P(j): P[j] = x[j - 1 if 1 <= j < 8]        block P_fill(j): P[j] = 0
///                                              ->    for j in 0..9:
///                                                      block P(j) where 1 <= j < 8: P[j] = x[j - 1]
///
/// Filling is one plain vector loop, and partition frees the other of its predicate. Returns the filling block.
///
/// Requires:
///   1. block has only space iters and its body is one Store without a mask, of a Select between a value and a
///   constant,
///      or of a Load with a mask; the condition uses nothing but iters
///   2. loop is around block, and no other block lies below it
///   3. block does not read what it writes
BlockRef decompose_padding(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
