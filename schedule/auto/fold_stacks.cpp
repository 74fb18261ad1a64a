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

/// Is the iter along an axis where many slices are stacked, or whole rows of them?
bool stacks_rows(const Block& block, const Iter& iter, std::int64_t count) {
  const Store* store = block.f.body.as<Store>();
  return store && iter.kind == IterKind::space &&
         (count > most_stacked || !uses_var(store->indices.back(), iter.variable.get()));
}

}  // namespace

void fold_stacks(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || block.f.reducer || block.f.init || block.f.predicate ||
        is_sealed(block) || !chooses(block))
      continue;
    const auto wanted = [&](const Iter& iter, std::int64_t count) { return stacks_rows(block, iter, count); };
    for (const LoopRef& loop : stacking_loops(schedule, ref, wanted)) {
      attempt(context, fmt::format("fold what {} stacks along {}", ref.name, loop.variable->name),
              [&] { fold_choices(schedule, ref, loop); });
    }
  }
}

}  // namespace lathe
