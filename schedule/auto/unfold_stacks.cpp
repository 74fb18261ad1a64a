#include "schedule/auto/unfold_stacks.h"

#include <fmt/format.h>

#include "ir/reduction.h"
#include "schedule/auto/stacked_axis.h"
#include "schedule/primitives/unfold_reduction.h"

namespace lathe {

bool may_unfold(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  return !context.scheduled.contains(ref.name) && block.f.reducer && !block.f.predicate && simple_op(*block.f.reducer);
}

void unfold_stacks(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (!may_unfold(context, ref)) continue;
    const auto wanted = [](const Iter& iter, std::int64_t count) {
      return iter.kind == IterKind::reduce && count <= most_unfolded;
    };
    for (const LoopRef& loop : stacking_loops(schedule, ref, wanted)) {
      attempt(context, fmt::format("unfold what {} stacks along {}", ref.name, loop.variable->name),
              [&] { unfold_reduction(schedule, ref, loop); });
    }
  }
}

}  // namespace lathe
