#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Puts the buffers that a block writes into another memory space.
///
///   alloc C: f32[8, 8]    ->    alloc C: f32[8, 8] in register
///
/// Requires:
///   1. each is an allocation
void set_space(Schedule& schedule, const BlockRef& block, const std::string& memory_space);

}  // namespace lathe
