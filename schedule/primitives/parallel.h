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
///   5. no two iterations meet in an element that one of them writes, but for buffers that nothing outside of loop uses
///      and that each iteration writes before it reads them, so that each has its own
void parallel(Schedule& schedule, const LoopRef& loop, std::int64_t grain = 1);

}  // namespace lathe
