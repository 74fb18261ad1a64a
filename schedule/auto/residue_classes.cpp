#include "schedule/auto/residue_classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/conjuncts.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/split_residues.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/residues.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Does the block choose by the residue of an index?
bool asks_for_residues(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    if (!choice || found) return;
    for (const Expr& condition : conjuncts_of(choice->condition)) found |= residue_condition(condition).has_value();
  });
  return found;
}

/// The blocks that spread out what the reduction reads, with zeros between.
std::vector<BlockRef> spreading(const RuleContext& context, const BlockRef& ref) {
  std::vector<BlockRef> found;
  for (const BlockRef& maker : context.schedule.producers(ref)) {
    const Block& block = context.schedule.node(maker);
    if (!block.f.reducer && asks_for_residues(block) && fusion_wish(block) != FusionWish::apart) found.push_back(maker);
  }
  return found;
}

/// Vectors along loops that lie in each other and walk memory together.
void vectorize_fused(RuleContext& context, const BlockRef& ref, const std::vector<LoopRef>& loops) {
  Schedule& schedule = context.schedule;
  LoopRef all = loops.front();
  for (size_t i = 1; i < loops.size(); ++i) all = fuse(schedule, all, loops[i]);
  const std::int64_t lanes = vector_lanes(schedule.node(ref), context.device);
  const std::int64_t* extent = as_int(schedule.node(all).extent);
  vectorize(schedule, extent && *extent <= lanes ? all : split(schedule, all, lanes).second);
  context.scheduled.insert(ref.name);
}

/// The block's loops along its reduction outside of the last `count` of the others, which vectors take together.
void sum_outside(RuleContext& context, const BlockRef& ref, size_t count) {
  Schedule& schedule = context.schedule;
  std::vector<LoopRef> reduce, space;
  for (const LoopRef& loop : own_loops(schedule, ref)) {
    (drives(schedule.node(ref), IterKind::reduce, schedule.node(loop)) ? reduce : space).push_back(loop);
  }
  if (reduce.empty() || space.size() < count) return;
  const auto inner = space.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<LoopRef> order(space.begin(), inner);
  order.insert(order.end(), reduce.begin(), reduce.end());
  order.insert(order.end(), inner, space.end());
  reorder(schedule, order);
  const BlockRef init = decompose_reduction(schedule, ref, reduce.front());
  vectorize_fused(context, ref, {inner, space.end()});
  const std::vector<LoopRef> start = own_loops(schedule, init);
  vectorize_fused(context, init, {start.end() - static_cast<std::ptrdiff_t>(count), start.end()});
}

/// What finds NaN and infinities among the elements that are left out walks them as they lie in memory.
void schedule_skipped(RuleContext& context, const BlockRef& result, const BlockRef& dense) {
  for (const BlockRef& skipped : context.schedule.producers(result)) {
    if (skipped == dense) continue;
    for (const BlockRef& zeros : context.schedule.producers(skipped)) {
      size_t count = 0;
      for (const Expr& extent : context.schedule.node(zeros).f.writes[0].buffer->shape) count += !is_int(extent, 1);
      if (count > 0) sum_outside(context, zeros, count);
    }
    sum_outside(context, skipped, 1);
  }
}

}  // namespace

void residue_classes(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (context.scheduled.contains(ref.name) || !schedule.node(ref).f.reducer) continue;
    const std::vector<BlockRef> makers = spreading(context, ref);
    if (makers.empty() && !asks_for_residues(schedule.node(ref))) continue;
    attempt(context, fmt::format("split {} by residues", ref.name), [&] {
      for (const BlockRef& maker : makers) compute_inline(schedule, maker);
      const BlockRef dense = split_residues(schedule, ref);
      schedule_skipped(context, ref, dense);
    });
  }
}

}  // namespace lathe
