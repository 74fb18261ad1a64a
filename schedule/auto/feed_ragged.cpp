#include "schedule/auto/feed_ragged.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/ragged.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The innermost serial loop around the block that drives the iter.
std::optional<LoopRef> step_loop(const Schedule& schedule, const BlockRef& ref, size_t iter) {
  std::optional<LoopRef> found;
  const Block& block = schedule.node(ref);
  for (const LoopRef& loop : schedule.loops(ref)) {
    const For& node = schedule.node(loop);
    if (node.for_kind == ForKind::serial && uses_var(block.f.bindings[iter], node.variable.get())) found = loop;
  }
  return found;
}

/// Blocks that check what they write, which the reduction alone reads, at places that move with the iter.
std::vector<BlockRef> checked_places(const Schedule& schedule, const BlockRef& reduction, size_t iter) {
  const Block& block = schedule.node(reduction);
  std::vector<BlockRef> found;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& maker = schedule.node(ref);
    if (has_blocks(maker) || !asserts(maker) || maker.f.reducer || maker.f.writes.size() != 1) continue;
    const Buffer& places = maker.f.writes[0].buffer;
    bool moves = false;
    for (const Access& access : block_accesses(block))
      moves |= access.buffer == places && !access.store && access.strides[iter] != 0;
    const std::vector<BlockRef> readers = schedule.consumers(ref);
    if (moves && readers.size() == 1 && readers[0] == reduction) found.push_back(ref);
  }
  return found;
}

}  // namespace

void feed_ragged(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (!block.f.reducer || is_sealed(block)) continue;
    const std::optional<size_t> ended = ended_by_data(block);
    const std::optional<LoopRef> steps = ended ? step_loop(schedule, ref, *ended) : std::nullopt;
    if (!steps) continue;
    for (const BlockRef& places : checked_places(schedule, ref, *ended)) {
      attempt(context, fmt::format("check {} where {} reads there", places.name, ref.name),
              [&] { compute_at(schedule, places, *steps); });
    }
  }
}

}  // namespace lathe
