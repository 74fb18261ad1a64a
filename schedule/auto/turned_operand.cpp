#include "schedule/auto/turned_operand.h"

#include "ir/buffer.h"
#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/rewrite.h"

namespace lathe {

bool can_turn(const TurnedOperand& operand) {
  const auto& shape = operand.buffer->shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t* extent = as_int(shape[d]);
    const std::int64_t least = d == operand.along || d == operand.across ? 2 : 1;
    if (!extent || *extent < least) return false;
  }
  return true;
}

std::optional<TurnedOperand> operand_along(const Block& block, size_t along, size_t across,
                                           const std::optional<size_t>& still) {
  const Load* found = nullptr;
  for (const Access& access : block_accesses(block)) {
    if (access.store || access.strides[along] != 1 || access.buffer == block.f.writes[0].buffer) continue;
    if (still && access.strides[*still] != 0) continue;
    if (found || access.masked) return std::nullopt;
    found = load_along(block, access.buffer, {along, across});
  }
  if (!found) return std::nullopt;
  TurnedOperand operand{found->buffer, dimension_walked(block, *found, along), dimension_walked(block, *found, across),
                        place_of(block, *found)};
  if (operand.along == found->indices.size() || operand.across == found->indices.size()) return std::nullopt;
  return can_turn(operand) ? std::optional(operand) : std::nullopt;
}

LoopRef loop_of_dimension(const Schedule& schedule, const BlockRef& copy, size_t dimension) {
  const auto loop = loop_of_iter(schedule, copy, dimension);
  LATHE_CHECK(loop, "a copy has a loop for each dimension");
  return *loop;
}

std::vector<LoopRef> other_loops(const Schedule& schedule, const BlockRef& copy, const LoopRef& a, const LoopRef& b) {
  std::vector<LoopRef> loops = own_loops(schedule, copy);
  std::erase_if(loops, [&](const LoopRef& loop) { return loop == a || loop == b; });
  return loops;
}

}  // namespace lathe
