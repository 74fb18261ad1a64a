#include "schedule/auto/fold_stacks.h"

#include <fmt/format.h>

#include "ir/visitor.h"
#include "schedule/auto/stacked_axis.h"
#include "schedule/auto/weave_vectors.h"
#include "schedule/primitives/fold_choices.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool chooses(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) { found |= e.as<Select>() != nullptr; });
  return found;
}

/// The loops along the axes where many slices are stacked, or whole rows of them.
std::vector<LoopRef> stacking_loops(const Schedule& schedule, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  const Store* store = block.f.body.as<Store>();
  std::vector<LoopRef> found;
  for (size_t i = 0; store && i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    const std::int64_t* count = as_int(iter.domain.extent);
    if (iter.kind != IterKind::space || !count || *count < 2) continue;
    if (*count <= most_stacked && uses_var(store->indices.back(), iter.variable.get())) continue;
    const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, i);
    if (loop && is_stacked_along(block, iter)) found.push_back(*loop);
  }
  return found;
}

}  // namespace

void fold_stacks(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || block.f.reducer || block.f.init || block.f.predicate ||
        is_sealed(block) || !chooses(block))
      continue;
    for (const LoopRef& loop : stacking_loops(schedule, ref)) {
      attempt(context, fmt::format("fold what {} stacks along {}", ref.name, loop.variable->name),
              [&] { fold_choices(schedule, ref, loop); });
    }
  }
}

}  // namespace lathe
