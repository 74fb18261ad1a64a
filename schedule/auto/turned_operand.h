#pragma once
/// An operand that is to lie another way in a copy, and the loops of that.
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// An operand: its buffer, the dimensions that two of the reduction's iters walk, each alone, and its place among
/// several of the buffer's.
struct TurnedOperand {
  Buffer buffer;
  size_t along, across;
  std::optional<size_t> place;
};

/// A copy of what has no size yet would have no place, and there is nothing to turn around in a single line or none.
bool can_turn(const TurnedOperand& operand);

/// The one operand that walks `along` memory with stride 1, stands still in every iter of `still`, and whose dimensions
/// belong to `along` and `across`, among others.
std::optional<TurnedOperand> operand_along(const Block& block, size_t along, size_t across,
                                           const std::optional<size_t>& still);

/// The loop of a copy that walks a dimension.
LoopRef loop_of_dimension(const Schedule& schedule, const BlockRef& copy, size_t dimension);

/// The loops of a copy but for those of two dimensions.
std::vector<LoopRef> other_loops(const Schedule& schedule, const BlockRef& copy, const LoopRef& a, const LoopRef& b);

}  // namespace lathe
