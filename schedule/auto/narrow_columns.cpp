#include "schedule/auto/narrow_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/reduction_loops.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// More columns than these are walked by tiles of masked vectors, which take no longer (measured on Zen 4: 20001x3 0.75
/// to 1.0 of the time in vectors along rows, 20001x4 1.4).
constexpr std::int64_t most_columns = 2;

/// Vectors in a step, which hide the latency of an addition, and steps from which on adding their lanes up at the end
/// costs little beside them.
constexpr std::int64_t vectors = 8, least_steps = 4;

struct NarrowPlan {
  size_t columns, rows;  ///< iters
  std::int64_t count;    ///< columns
  std::int64_t lanes;    ///< of a vector, which holds whole rows
  std::int64_t vectors;  ///< in a step
};

/// Do all loads of the term walk from the last column to the next row's first, or stand still along one of the two?
bool walks_on(const Block& block, const Accesses& accesses, size_t columns, size_t rows, std::int64_t count) {
  bool found = false;
  for (const Access& access : accesses) {
    if (access.masked) return false;
    if (access.buffer == block.f.writes[0].buffer) {
      if (access.strides[columns] != 1) return false;
      continue;
    }
    const auto across = access.strides[rows], along = access.strides[columns];
    if (!across || !along) return false;
    if (*along == 1 && *across == count) {
      found = true;
    } else if (*across != 0 || (*along != 0 && *along != 1)) {
      return false;
    }
  }
  return found;
}

std::optional<NarrowPlan> plan_narrow(const RuleContext& context, const Block& block) {
  const Accesses accesses = block_accesses(block);
  const std::int64_t lanes = vector_lanes(block, context.device);
  if (lanes < 2) return std::nullopt;
  for (size_t columns = 0; columns < block.f.iters.size(); ++columns) {
    const std::int64_t* count = as_int(block.f.iters[columns].domain.extent);
    if (block.f.iters[columns].kind != IterKind::space || !count || *count < 2 || *count > most_columns ||
        lanes % *count != 0)
      continue;
    for (size_t rows = 0; rows < block.f.iters.size(); ++rows) {
      const Iter& iter = block.f.iters[rows];
      if (iter.kind != IterKind::reduce || !walks_on(block, accesses, columns, rows, *count)) continue;
      const std::int64_t whole = extent_estimate(iter.domain.extent, context.schedule.func()->facts) * *count / lanes;
      if (whole < least_steps) continue;
      return NarrowPlan{columns, rows, *count, lanes, whole < least_steps * vectors ? 1 : vectors};
    }
  }
  return std::nullopt;
}

LoopRef reducing_loop(const Schedule& schedule, const BlockRef& ref) {
  const std::vector<LoopRef> own = own_loops(schedule, ref);
  const auto found = std::find_if(own.begin(), own.end(), [&](const LoopRef& loop) {
    return drives(schedule.node(ref), IterKind::reduce, schedule.node(loop));
  });
  if (found == own.end()) throw Refusal("narrow_columns", 0, "no loop reduces");
  return *found;
}

/// Has the iter's loop be the innermost around the block.
void walk_innermost(Schedule& schedule, const BlockRef& ref, size_t iter) {
  const std::optional<OwnLoop> found = own_loop_of(schedule, ref, iter);
  if (!found) throw Refusal("narrow_columns", 0, "others share a loop");
  std::vector<LoopRef> order = found->own;
  std::erase(order, found->loop);
  order.push_back(found->loop);
  if (order != found->own) reorder(schedule, order);
}

/// Partial results by rows of `loop`, each of columns side by side and all in one dimension.
BlockRef partial_rows(Schedule& schedule, const BlockRef& ref, const LoopRef& loop, const NarrowPlan& plan) {
  const BlockRef partial = rfactor(schedule, ref, loop);
  const Block& block = schedule.node(partial);
  const Region written = block.f.writes[0];
  const std::optional<size_t> columns = dimension_of(written, block, plan.columns);
  if (!columns) throw Refusal("narrow_columns", 0, "columns are no dimension of the result");
  LayoutMap map = same_layout(written.buffer->rank());
  const Expr row = map.to.back(), column = map.to[*columns];
  map.to.pop_back();
  map.to.erase(map.to.begin() + static_cast<std::ptrdiff_t>(*columns));
  map.to.push_back(row * plan.count + column);
  transform_layout(schedule, partial, written.buffer->name, map);
  return partial;
}

/// Takes the rows of `loop` as partial results, whose elements are walked in vectors, all of them without a loop.
void take_rows(RuleContext& context, const BlockRef& ref, const LoopRef& loop, const NarrowPlan& plan,
               std::int64_t vectors) {
  Schedule& schedule = context.schedule;
  const BlockRef partial = partial_rows(schedule, ref, loop, plan);
  walk_innermost(schedule, partial, plan.columns);
  set_space(schedule, partial, space::registers);
  const std::vector<LoopRef> loops = schedule.loops(partial);
  vectorize_copies(schedule, fuse(schedule, loops[loops.size() - 2], loops.back()), vectors, plan.lanes);
  context.scheduled.insert(partial.name);
}

void reduce_narrow(RuleContext& context, const BlockRef& ref, const NarrowPlan& plan) {
  Schedule& schedule = context.schedule;
  const std::optional<OwnLoop> rows = own_loop_of(schedule, ref, plan.rows);
  if (!rows) throw Refusal("narrow_columns", 0, "others share a loop");
  const std::int64_t row_count = plan.lanes / plan.count;
  make_innermost(schedule, ref, *rows);
  const LoopRef within = split(schedule, rows->loop, row_count * plan.vectors).second;
  walk_innermost(schedule, ref, plan.columns);
  take_rows(context, ref, within, plan, plan.vectors);
  if (plan.vectors > 1) {
    const auto [outer, row] = split(schedule, reducing_loop(schedule, ref), row_count);
    walk_innermost(schedule, ref, plan.columns);
    unroll(schedule, outer);
    take_rows(context, ref, row, plan, 1);
  }
  walk_innermost(schedule, ref, plan.columns);
  unroll(schedule, reducing_loop(schedule, ref));
  vectorize(schedule, own_loops(schedule, ref).back());
  context.scheduled.insert(ref.name);
}

}  // namespace

void narrow_columns(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (!is_free_sum(context, ref)) continue;
    const std::optional<NarrowPlan> plan = plan_narrow(context, block);
    if (!plan) continue;
    attempt(context,
            fmt::format("reduce {} along rows of {} in {} vectors of {} lanes", ref.name, plan->count, plan->vectors,
                        plan->lanes),
            [&] { reduce_narrow(context, ref, *plan); });
  }
}

}  // namespace lathe
