#pragma once
#include <optional>
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Lets a block read a buffer through a copy that is laid out along the block's own iters, in their order, so that
/// every operand of a contraction is indexed by iters alone, whatever map led there.
///
///   for h: for r:                          for h: for r: block x_reindex: x_reindex[h, r] = x[h*2 + r]
///     block C(h; r): .. x[h*2 + r] ..  ->  for h: for r:
///                                            block C(h; r): .. x_reindex[h, r] ..
///
/// Iters that lead to data which says what is read come first, in the order in which that lies.
/// A copy of what is read under a mask holds zero where the mask is off. Of a block that reads several elements, as
/// x[h] * x[r] does, `element` says which, counted as they stand in it; the others are read as before. Returns the
/// copying block, which stands before the nest that holds block.
///
/// Requires:
///   1. block reads a buffer of that name, by Loads all of one element, or of the one that is named, under one mask or
///      none, that its iters and what other buffers hold determine, and does not write it
///   2. nothing in the nest that holds block writes the buffer, or what is its index
///   3. the element is proved to lie in the buffer for every value of the iters that the mask lets through
BlockRef reindex(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                 std::optional<size_t> element = std::nullopt);

}  // namespace lathe
