#include "schedule/auto/reduce_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Vectors in a row from which on keeping its result costs little beside it.
constexpr std::int64_t least_vectors = 4;

/// The iters of the block that a loop drives, as its bindings have them.
std::vector<const Var*> driven(const Block& block, const For& loop) {
  std::vector<const Var*> iters;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (uses_var(block.f.bindings[i], loop.variable.get())) iters.push_back(block.f.iters[i].variable.get());
  }
  return iters;
}

bool uses_any(const Region& region, const std::vector<const Var*>& iters) {
  return std::any_of(region.ranges.begin(), region.ranges.end(), [&](const Range& range) {
    return std::any_of(iters.begin(), iters.end(),
                       [&](const Var* iter) { return uses_var(range.min, iter) || uses_var(range.extent, iter); });
  });
}

/// The loop over rows: the outermost along the reduction, under which all others are too and make up rows that are long
/// enough, and along which, but not along a row, a computed buffer is read.
std::optional<LoopRef> loop_over_rows(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> own = own_loops(schedule, ref);
  const auto reduces = [&](const LoopRef& loop) { return drives(block, IterKind::reduce, schedule.node(loop)); };
  const auto rows = std::find_if(own.begin(), own.end(), reduces);
  if (rows == own.end() || rows + 1 == own.end() || !std::all_of(rows + 1, own.end(), reduces)) return std::nullopt;
  double length = 1;
  std::vector<const Var*> along;
  for (auto loop = rows + 1; loop != own.end(); ++loop) {
    length *= static_cast<double>(extent_estimate(schedule.node(*loop).extent, schedule.func()->facts));
    for (const Var* iter : driven(block, schedule.node(*loop))) along.push_back(iter);
  }
  if (length < static_cast<double>(least_vectors * vector_lanes(block, context.device))) return std::nullopt;
  const std::vector<const Var*> over = driven(block, schedule.node(*rows));
  for (const BlockRef& producer : schedule.producers(ref)) {
    if (context.scheduled.contains(producer.name) || is_sealed(schedule.node(producer)) ||
        fusion_wish(schedule.node(producer)) == FusionWish::apart)
      continue;
    for (const Region& read : block.f.reads) {
      if (writes(schedule.node(producer), read.buffer) && uses_any(read, over) && !uses_any(read, along)) return *rows;
    }
  }
  return std::nullopt;
}

/// Adds the rows' results up in vectors; later rules leave that alone, so that the rows have a nest of their own.
void add_up(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  context.scheduled.insert(ref.name);
  const LoopRef rows = schedule.loops(ref).back();
  const std::int64_t lanes = vector_lanes(schedule.node(ref), context.device);
  const auto extent = greatest_extent(schedule.node(rows).extent, schedule.func());
  if (lanes < 2 || !extent || *extent < least_vectors * lanes) return;
  attempt(context, fmt::format("add up {} in {} lanes", ref.name, lanes), [&] {
    const BlockRef partial = rfactor(schedule, ref, split(schedule, rows, lanes).second);
    set_space(schedule, partial, space::registers);
    vectorize(schedule, schedule.loops(partial).back());
    fold_lanes(schedule, ref, lanes);
    context.scheduled.insert(partial.name);
  });
}

}  // namespace

void reduce_rows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (!is_free_sum(context, ref)) continue;
    const std::optional<LoopRef> rows = loop_over_rows(context, ref);
    if (!rows) continue;
    const std::optional<ReductionShape> shape = reduction_shape(block);
    if (shape && shape->vector_space) continue;
    if (attempt(context, fmt::format("reduce {} row by row", ref.name), [&] { partial_results(schedule, ref, *rows); }))
      add_up(context, ref);
  }
}

}  // namespace lathe
