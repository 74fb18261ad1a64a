#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// bind: runs the iterations of a loop along a thread axis of the device. Not called so in C++, where std::bind would
/// take the call.
///
///   for i: block B(i)    ->    bound("lane") i: block B(i)
///
/// Requires:
///   1. loop is serial, and thread_axis has a name
///   2. no loop around it or below it is bound to that axis
///   3. no reduce, ordered or opaque iter below is bound to an expression of loop
///   4. a block below that does not use loop writes only buffers that nothing outside of loop reads or writes
///   5. no two iterations meet in an element that one of them writes, but for buffers that nothing outside of loop uses
///      and that each iteration writes before it reads them, so that each has its own
void bind_loop(Schedule& schedule, const LoopRef& loop, const std::string& thread_axis);

}  // namespace lathe
