#include "schedule/auto/unfold_stacks.h"

#include <fmt/format.h>

#include "ir/reduction.h"
#include "schedule/auto/stacked_axis.h"
#include "schedule/primitives/unfold_reduction.h"

namespace lathe {
namespace {

/// The loops along the axes where tensors are stacked.
std::vector<LoopRef> stacking_loops(const Schedule& schedule, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  std::vector<LoopRef> found;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    const std::int64_t* steps = as_int(iter.domain.extent);
    if (iter.kind != IterKind::reduce || !steps || *steps < 2 || *steps > most_unfolded) continue;
    const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, i);
    if (loop && is_stacked_along(block, iter)) found.push_back(*loop);
  }
  return found;
}

}  // namespace

void unfold_stacks(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || !block.f.reducer || block.f.predicate || !simple_op(*block.f.reducer))
      continue;
    for (const LoopRef& loop : stacking_loops(schedule, ref)) {
      attempt(context, fmt::format("unfold what {} stacks along {}", ref.name, loop.variable->name),
              [&] { unfold_reduction(schedule, ref, loop); });
    }
  }
}

}  // namespace lathe
