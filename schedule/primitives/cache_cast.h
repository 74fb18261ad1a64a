#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Lets a block read what it casts the elements of a buffer to through a copy, so that each is cast once and not at
/// every read.
///
///   for i: for j: for k:                                for k: for j: block B_cast: B_f32[k, j] = cast<f32>(B[k, j])
///     block C: .. A[i, k] * cast<f32>(B[k, j]) ..    ->  for i: for j: for k:
///                                                          block C: .. A[i, k] * B_f32[k, j] ..
///
/// Returns the copying block. Moved under a loop by compute_at it casts what an iteration reads.
///
/// Requires:
///   1. block reads a buffer of that name, by Loads alone, each of which is cast to the same type, and does not write
///      it
///   2. nothing in the nest that holds block writes the buffer
///   3. where the buffer is an allocation, all of it is proved to be written before
BlockRef cache_cast(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                    const std::string& memory_space);

}  // namespace lathe
