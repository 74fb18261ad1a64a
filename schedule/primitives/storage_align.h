#pragma once
#include <cstdint>
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Pads the rows of a buffer, so that elements one step of `dimension` apart lie a multiple of `factor` plus `offset`
/// elements apart: rows that begin in different banks or cache sets, or on a vector's alignment.
///
///   alloc B: f32[8, 30]    ->    alloc B: f32[8, 30] strides [33, 1]       storage_align(B, "B", 0, 32, 1)
///
/// Dimensions outside of `dimension` follow; the padding is never touched.
///
/// Requires:
///   1. block writes an allocation of that name, in memory that has addresses
///   2. dimension is one of the buffer's, and not the last, which stays contiguous
///   3. factor is at least 1, and offset lies in [0, factor)
void storage_align(Schedule& schedule, const BlockRef& block, const std::string& buffer, std::int64_t dimension,
                   std::int64_t factor, std::int64_t offset);

}  // namespace lathe
