#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Runs all iterations of what comes first in a loop's body before any of the rest, which begins with the statement
/// that holds `block`: loop distribution, what join_loops undoes. Gives the loop of the rest; `loop` keeps what comes
/// first.
///
///   for i in 0..30:                               for i in 0..30: block B(i)
///     block B(i)                            ->    for i_rest in 0..30: block C(i_rest) reads B[i_rest]
///     block C(i) reads B[i]
///
/// Requires:
///   1. loop is serial, its body a sequence of loops and blocks, and block stands in one behind the first of these
///   2. in no iteration does what comes first touch what the rest has touched in an earlier one, where one of them
///   writes it
LoopRef distribute(Schedule& schedule, const LoopRef& loop, const BlockRef& block);

}  // namespace lathe
