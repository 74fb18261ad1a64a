#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Marks a loop to become vector lanes.
///
///   for i in 0..8: block B(i)    ->    vectorized i in 0..8: block B(i)
///
/// Requires:
///   1. the extent is a constant of at least 1
///   2. loop is serial, and no loop below it or around it is vectorized
///   3. no reduce, ordered or opaque iter below is bound to an expression of loop (a reduce loop goes through rfactor)
///   4. no bound of a loop below uses loop
///   5. no iteration touches what another one writes
void vectorize(Schedule& schedule, const LoopRef& loop);

}  // namespace lathe
