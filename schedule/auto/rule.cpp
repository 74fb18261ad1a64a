#include "schedule/auto/rule.h"

#include <algorithm>

#include "ir/error.h"
#include "schedule/rewrite.h"

namespace lathe {

bool attempt(RuleContext& context, const std::string& decision, const std::function<void()>& f) {
  const Schedule::Checkpoint before = context.schedule.checkpoint();
  const size_t scheduled = context.scheduled.size();
  try {
    f();
  } catch (const Refusal& refusal) {
    context.schedule.rollback(before);
    context.scheduled.shrink(scheduled);
    context.note("not " + decision + ": " + refusal.message().substr(0, refusal.message().find('\n')));
    return false;
  }
  context.note(decision);
  return true;
}

std::vector<LoopRef> own_loops(const Schedule& schedule, const BlockRef& block) {
  const Path path = path_to(schedule, block);
  std::vector<LoopRef> loops;
  for (size_t level = path.size() - 1; level-- > 0;) {
    const For* loop = path[level].as<For>();
    if (!loop) break;
    loops.push_back({loop->variable});
  }
  std::reverse(loops.begin(), loops.end());
  return loops;
}

std::optional<LoopRef> loop_of_iter(const Schedule& schedule, const BlockRef& block, size_t iter) {
  const Expr& binding = schedule.node(block).f.bindings[iter];
  for (const LoopRef& loop : schedule.loops(block)) {
    if (Expr(loop.variable) == binding) return loop;
  }
  return std::nullopt;
}

}  // namespace lathe
