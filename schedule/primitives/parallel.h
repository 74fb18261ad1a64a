#pragma once
#include <cstdint>

#include "schedule/schedule.h"

namespace lathe {

/// Marks a loop to run its iterations at once, on the context's threads, in tasks of at least `grain` iterations.
///
///   for i: block B(i)    ->    parallel i: block B(i)       annotation parallel_grain = grain
///
/// Requires:
///   1. grain is at least 1
///   2. loop is serial, and no loop around it or below it is parallel
///   3. no reduce, ordered or opaque iter below is bound to an expression of loop
///   4. a block below that does not use loop writes only buffers that nothing outside of loop reads or writes
///   5. what a block below reads of another block below comes from the same iteration: either nothing outside of loop
///      uses the buffer, so that each iteration has its own, or no two iterations are found to meet in an element of it
void parallel(Schedule& schedule, const LoopRef& loop, std::int64_t grain = 1);

}  // namespace lathe
