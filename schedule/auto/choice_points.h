#pragma once
/// Where choices by place change along the axes of an element-wise block.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "ir/stmt.h"

namespace lathe {

/// An iter by which a block chooses among so many operands.
struct JoinedAxis {
  size_t iter, operands;
};
/// The axis along which the block joins many operands, each vector of which costs a masked load of every one: copied
/// part by part they are read once.
std::optional<JoinedAxis> joined_axis(const Block& block);

/// Operands of what is joined from which on a block of its own copies them, part by part, for what reads them together.
inline constexpr size_t many_operands = 3;

/// Blocks that a block is cut into at the most, where all compute the same; and pieces of a row that begins anew.
inline constexpr std::int64_t most_parts = 8;

/// Where choices change within the domains, by iters; and where what the row reads goes on elsewhere.
struct Points {
  std::vector<std::set<std::int64_t>> of_iters;
  std::set<std::int64_t> jumps;
  bool repeats = false;
};
/// Those of a block along a row; without where the row begins anew if loops of its own digits walk it.
Points points_of(const Block& block, size_t row, bool has_digits);

}  // namespace lathe
