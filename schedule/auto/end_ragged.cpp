#include "schedule/auto/end_ragged.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/visitor.h"
#include "schedule/auto/ragged.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/end_masked.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A branch whose way out of a loop is not foreseen costs as much as so many iterations behind the end.
constexpr std::int64_t least_iterations = 4;

/// The serial loops that drive such an iter, outermost first, and the outermost loop along the reduction.
struct RaggedLoops {
  std::vector<LoopRef> ended;
  std::optional<LoopRef> outermost;
};

RaggedLoops ragged_loops(const Schedule& schedule, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  const std::vector<RaggedIter> ragged = ragged_iters(block);
  RaggedLoops found;
  if (ragged.empty()) return found;
  for (const LoopRef& loop : schedule.loops(ref)) {
    const For& node = schedule.node(loop);
    if (drives(block, IterKind::reduce, node) && !found.outermost) found.outermost = loop;
    const std::int64_t* extent = as_int(node.extent);
    const bool steps = node.for_kind == ForKind::serial || node.for_kind == ForKind::unrolled;
    if (!steps || !extent || *extent < least_iterations) continue;
    const bool is_ragged = std::any_of(ragged.begin(), ragged.end(), [&](const RaggedIter& iter) {
      return uses_var(block.f.bindings[iter.iter], node.variable.get());
    });
    if (is_ragged) found.ended.push_back(loop);
  }
  return found;
}

}  // namespace

void end_ragged(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (!block.f.reducer || is_sealed(block)) continue;
    const RaggedLoops loops = ragged_loops(schedule, ref);
    for (const LoopRef& loop : loops.ended) {
      attempt(context, fmt::format("end {} where its masks do", ref.name), [&] {
        if (schedule.node(ref).f.init) decompose_reduction(schedule, ref, *loops.outermost);
        end_masked(schedule, ref, loop);
      });
    }
  }
}

}  // namespace lathe
