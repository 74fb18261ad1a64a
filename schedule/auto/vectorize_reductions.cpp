#include "schedule/auto/vectorize_reductions.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "schedule/auto/contraction.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Chains that hide the latency of an addition at two a cycle, with no more registers than a small body wants.
constexpr std::int64_t chains = 4;
/// Iterations that chains leave to a loop at the least: a short row needs no more, and compiles sooner.
constexpr std::int64_t least_iterations = 4;

bool folds(const Block& block) {
  const auto op = simple_op(*block.f.reducer);
  if (!op) return false;
  switch (*op) {
    case BinaryOp::add:
    case BinaryOp::mul:
    case BinaryOp::min:
    case BinaryOp::max:
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      return true;
    default:
      return false;
  }
}

}  // namespace

void vectorize_reductions(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || !block.f.reducer || !block.f.init || !folds(block)) continue;
    const std::optional<ReductionShape> shape = reduction_shape(block);
    if (!shape || !shape->vector_reduce) continue;
    const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, *shape->vector_reduce);
    const std::vector<LoopRef> own = own_loops(schedule, ref);
    if (!loop || std::find(own.begin(), own.end(), *loop) == own.end()) continue;
    std::int64_t lanes = vector_lanes(block, context.device), vectors = chains;
    if (const std::int64_t* extent = as_int(schedule.node(*loop).extent)) {
      while (vectors > 1 && lanes * vectors * least_iterations > *extent) vectors /= 2;
      while (lanes > 1 && lanes / 2 >= *extent) lanes /= 2;
    }
    if (lanes < 2) continue;
    attempt(context, fmt::format("reduce {} in {} vectors of {} lanes", ref.name, vectors, lanes), [&] {
      std::vector<LoopRef> order;
      for (const LoopRef& other : own) {
        if (!(other == *loop)) order.push_back(other);
      }
      order.push_back(*loop);
      if (order != own) reorder(schedule, order);
      const auto [steps, within] = split(schedule, *loop, lanes * vectors);
      const BlockRef partial = rfactor(schedule, ref, within);
      set_space(schedule, partial, space::registers);
      LoopRef lane = schedule.loops(partial).back();
      if (vectors > 1) {
        const auto [copies, inner] = split(schedule, lane, lanes);
        unroll(schedule, copies);
        lane = inner;
      }
      vectorize(schedule, lane);
      fold_lanes(schedule, ref, lanes);
      context.scheduled.insert(partial.name);
      context.scheduled.insert(ref.name);
    });
  }
}

}  // namespace lathe
