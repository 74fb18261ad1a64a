#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Removes a result of a block that nothing reads but what the block computes for the result itself, and its
/// allocation.
///
///   alloc a, b                          ->    alloc b
///   a[i] = a[i - 1] * 0.9                     b[i] = b[i - 1] * 0.9 + x[i]
///   b[i] = b[i - 1] * 0.9 + x[i]
///
/// So does what combines pairs one after another, as linear recurrences do, where its first value is not asked for.
///
/// Requires:
///   1. block writes an allocation of that name beside another buffer, holds no other block, and has no reducer
///   2. nothing outside of the stores to it touches the buffer
void drop_result(Schedule& schedule, const BlockRef& block, const std::string& buffer);

}  // namespace lathe
