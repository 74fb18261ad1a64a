#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Takes the filling of a padded border out of a block that chooses between a value and a constant, to a block of its
/// own before `loop`; the rest only runs inside.
///
///   for j in 0..9:                                   for j in 0..9:
///     block P(j): P[j] = x[j - 1 if 1 <= j < 8]        block P_fill(j): P[j] = 0
///                                              ->    for j in 0..7:
///                                                      block P(j + 1): P[j + 1] = x[j]
///
/// Filling is one plain vector loop. The loops of the rest run over what the condition leaves, where it bounds the iter
/// that a loop alone moves by constants; what else it says becomes the block's predicate. Returns the filling block.
///
/// Requires:
///   1. block has only space iters and its body is one Store without a mask, of a Select between a value and a
///   constant,
///      or of a Load with a mask; the condition uses nothing but iters
///   2. loop is around block, and no other block lies below it
///   3. block does not read what it writes
BlockRef decompose_padding(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
