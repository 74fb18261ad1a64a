#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Puts loops of one nest in the given order, outermost first; loops between them that are not named keep their places.
///
///   for i:                   reorder(k, i)    for k:
///     for j:                                    for j:
///       for k: block B             ->             for i: block B
///
/// Requires:
///   1. the loops are distinct and nest in each other, with nothing beside them from the outermost to the innermost
///   2. no loop's bounds use the variable of a loop that would come to stand inside it
///   3. one block lies below them
///   4. loops that bind ordered or opaque iters keep their order among each other
///   5. no loop that moves is vectorized
///   6. no two instances of the block that meet in an element, which one of them writes, change their order; but for
///      the output of a reduction which folds_in_any_order
///   7. no loop that moves drives both a space and a reduce iter of a block with an init, which comes first
void reorder(Schedule& schedule, const std::vector<LoopRef>& order);

}  // namespace lathe
