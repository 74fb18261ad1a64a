#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Marks a loop to become copies of its body.
///
///   for i in 0..4: block B(i)    ->    unrolled i in 0..4: block B(i)
///
/// Requires:
///   1. the extent is a constant of at least 1
///   2. loop is serial
void unroll(Schedule& schedule, const LoopRef& loop);

}  // namespace lathe
