#pragma once
#include <cstddef>
#include <optional>
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
/// Where the block reads several elements of the buffer, as x @ x does, `place` has it read one alone through the copy:
/// the one that the block lists as so many-th of this buffer's reads, from 0.
///
/// Requires:
///   1. block reads a buffer of that name, by Loads alone, and does not write it
///   2. nothing in the nest that holds block writes the buffer
///   3. where the buffer is an allocation, all of it is proved to be written before
///   4. place counts a read of the buffer that is one element, where Loads of the block are
BlockRef cache_read(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                    const std::string& memory_space, std::optional<size_t> place = std::nullopt);

/// The place of that Load; nothing where the block reads the buffer at no other.
std::optional<size_t> place_of(const Block& block, const Load& load);

}  // namespace lathe
