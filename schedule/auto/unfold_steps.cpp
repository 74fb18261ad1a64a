#include "schedule/auto/unfold_steps.h"

#include <fmt/format.h>

#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/ragged.h"
#include "schedule/auto/unfold_stacks.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/unfold_reduction.h"
#include "schedule/primitives/unroll.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Steps that become one expression at the most, and what they may cost together, in the units of body_cost: what is
/// written out takes its time to compile.
constexpr std::int64_t most_steps = 16;
constexpr double most_cost = 600;

}  // namespace

void unfold_steps(RuleContext& context, const BlockRef& reduction) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(reduction);
  if (context.scheduled.contains(reduction.name) || ended_by_data(block)) return;
  std::int64_t steps = 1;
  std::vector<LoopRef> loops;
  bool fills = false;
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    const std::int64_t extent = extent_estimate(iter.domain.extent, schedule.func()->facts);
    if (iter.kind != IterKind::reduce) {
      fills |= extent >= vector_lanes(block, context.device) && stores_in_a_row(accesses, i);
      continue;
    }
    const auto loop = as_int(iter.domain.extent) ? loop_of_iter(schedule, reduction, i) : std::nullopt;
    if (!loop || extent < 1) return;
    loops.push_back(*loop);
    steps *= extent;
    if (steps > most_steps) return;
  }
  if (!fills || static_cast<double>(steps) * body_cost(block) > most_cost) return;
  // Sums that stay in a loop at least need not wait for each other's branches.
  const bool unfolds = may_unfold(context, reduction);
  const char* decision = unfolds ? "make one expression of the {} steps of {}" : "take the {} steps of {} at once";
  attempt(context, fmt::format(fmt::runtime(decision), steps, reduction.name), [&] {
    for (const LoopRef& loop : loops) unfolds ? unfold_reduction(schedule, reduction, loop) : unroll(schedule, loop);
  });
}

}  // namespace lathe
