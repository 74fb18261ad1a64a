#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Lets a block read a buffer through a copy in another memory space, made by a new block before the nest that holds
/// it.
///
///   for i: block C: .. B[i, j] ..    ->    for i: for j: block B_copy: B_global[i, j] = B[i, j]
///                                          for i: block C: .. B_global[i, j] ..
///
/// Returns the copying block. Moved under a loop by compute_at it copies what an iteration reads: a packed panel.
///
/// Requires:
///   1. block reads a buffer of that name, by Loads alone, and does not write it
///   2. nothing in the nest that holds block writes the buffer
///   3. where the buffer is an allocation, all of it is proved to be written before
BlockRef cache_read(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                    const std::string& memory_space);

}  // namespace lathe
