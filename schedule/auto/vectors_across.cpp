#include "schedule/auto/vectors_across.h"

#include <algorithm>

#include "ir/buffer.h"
#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Panels for each core from which on an uneven share does not matter.
constexpr std::int64_t enough_panels = 4;

/// For each dimension of a compact operand the widest step by which a reduce iter walks it, negative where that goes
/// back; 1 where none does.
std::vector<std::int64_t> reduction_steps(const Block& block, const Buffer& operand) {
  std::vector<std::int64_t> steps(operand->rank(), 1);
  const Load* load = load_of(block, operand);
  for (const Access& access : block_accesses(block)) {
    if (!load || access.buffer != operand || access.store) continue;
    std::int64_t elements = 1;
    for (size_t d = operand->rank(); d-- > 0; elements *= as_int(operand->shape[d]) ? *as_int(operand->shape[d]) : 1) {
      for (size_t i = 0; i < block.f.iters.size(); ++i) {
        const std::int64_t moved = access.strides[i].value_or(0);
        if (block.f.iters[i].kind == IterKind::reduce && uses_var(load->indices[d], block.f.iters[i].variable.get()) &&
            moved % elements == 0 && std::abs(moved / elements) > std::abs(steps[d]))
          steps[d] = moved / elements;
      }
    }
  }
  return steps;
}

/// Splits the last dimension into panels, which come first; behind these the remainders of dimensions to the steps by
/// which the reduction walks them, so that what it reads one after another is compact.
LayoutMap by_panels(const Buffer& buffer, std::int64_t width, const std::vector<std::int64_t>& steps) {
  LayoutMap map{same_layout(buffer->rank()).from, {}};
  map.to.push_back(floor_div(map.from.back(), width));
  std::vector<Expr> quotients;
  for (size_t d = 0; d + 1 < buffer->rank(); ++d) {
    const std::int64_t step = std::abs(steps[d]);
    if (step > 1) map.to.push_back(floor_mod(map.from[d], step));
    const Expr quotient = step > 1 ? floor_div(map.from[d], step) : Expr(map.from[d]);
    quotients.push_back(quotient);
  }
  map.to.insert(map.to.end(), quotients.begin(), quotients.end());
  map.to.push_back(floor_mod(map.from.back(), width));
  return map;
}

/// Turns around the dimensions of panels that the reduction walks from the last to the first, as prefetchers do not.
LayoutMap turned_around(const Buffer& panels, const std::vector<std::int64_t>& steps) {
  LayoutMap map = same_layout(panels->rank());
  const auto turn = [&](size_t d) { map.to[d] = panels->shape[d] - 1 - Expr(map.from[d]); };
  // Behind the panels' dimension come those of remainders, then the operand's.
  size_t remainder = 1;
  for (size_t d = 0; d < steps.size(); ++d) {
    if (steps[d] < 0) turn(panels->rank() - steps.size() + d);
    if (steps[d] < -1) turn(remainder);
    if (std::abs(steps[d]) > 1) ++remainder;
  }
  return map;
}

}  // namespace

void stage_across(RuleContext& context, const BlockRef& ref, AcrossPlan& plan) {
  Schedule& schedule = context.schedule;
  plan.copy = cache_read(schedule, ref, plan.operand->name, space::global);
  const Buffer turned = schedule.node(plan.copy).f.writes[0].buffer;
  if (plan.dimension + 1 != turned->rank())
    transform_layout(schedule, ref, turned->name, moved_last(turned->rank(), plan.dimension));
}

void turn_result(Schedule& schedule, const BlockRef& ref, const AcrossPlan& plan) {
  const Block& block = schedule.node(ref);
  const auto dimension = dimension_of(block.f.writes[0], block, plan.vectors);
  LATHE_CHECK(dimension, "the vectors of a plan walk a dimension of the result");
  const Buffer written = block.f.writes[0].buffer;
  transform_layout(schedule, ref, written->name, moved_last(written->rank(), *dimension));
}

void pack_across(RuleContext& context, const BlockRef& ref, const AcrossPlan& plan, const LoopRef& panels) {
  Schedule& schedule = context.schedule;
  const std::int64_t width = plan.tile.vectors * plan.tile.lanes, count = *as_int(schedule.node(panels).extent),
                     cores = context.device.cores, side = widest_square(schedule.node(ref), context.device);
  const bool below = count >= enough_panels * cores && !plan.panels_inside;
  if (below) compute_at(schedule, plan.copy, panels);
  const Buffer packed = schedule.node(plan.copy).f.writes[0].buffer;
  const std::vector<std::int64_t> steps = reduction_steps(schedule.node(ref), packed);
  transform_layout(schedule, ref, packed->name, by_panels(packed, width, steps));
  if (std::any_of(steps.begin(), steps.end(), [](std::int64_t step) { return step < 0; }))
    transform_layout(schedule, ref, packed->name, turned_around(schedule.node(plan.copy).f.writes[0].buffer, steps));
  // Dimensions behind the vectors' are walked as one: of the source they are contiguous together.
  std::vector<LoopRef> others;
  std::optional<LoopRef> across, along;
  for (const LoopRef& loop : own_loops(schedule, plan.copy)) {
    if (uses_var(schedule.node(plan.copy).f.bindings[plan.dimension], loop.variable.get())) {
      across = loop;
    } else if (across) {
      along = along ? fuse(schedule, *along, loop) : loop;
    } else {
      others.push_back(loop);
    }
  }
  LATHE_CHECK(across, "a copy has a loop for each dimension");
  if (!below) {
    const auto [panel, inner] = split(schedule, *across, width);
    others.push_back(panel);
    across = inner;
  }
  const std::int64_t* run = along ? as_int(schedule.node(*along).extent) : nullptr;
  if (along && run && side > 1 && *run >= side && width % side == 0) {
    others.insert(others.end(), {*across, *along});
    turn_squares(schedule, others, *across, *along, side, {1, 1});
  } else {
    const auto [vectors, lane] = split(schedule, *across, plan.tile.lanes);
    if (along) others.push_back(*along);
    others.insert(others.end(), {vectors, lane});
    reorder(schedule, others);
    vectorize(schedule, lane);
  }
  context.scheduled.insert(plan.copy.name);
}

void store_across(RuleContext& context, const BlockRef& reader, const AcrossPlan& plan, const LoopRef& row,
                  const LoopRef& column) {
  Schedule& schedule = context.schedule;
  if (plan.side > 1) {
    const LoopRef squares = turn_squares(schedule, own_loops(schedule, reader), row, column, plan.side, {1, 1});
    if (plan.cut) {
      // Few rows of the result at a time, each for the whole block: their lines, and those of what else is read there,
      // come one behind another (measured on Cascade Lake: with a residual 0.92 of the time, without 0.96 to 1).
      std::vector<LoopRef> order = own_loops(schedule, reader);
      const auto at = std::find(order.begin(), order.end(), squares);
      std::rotate(order.begin(), at, at + 1);
      reorder(schedule, order);
    }
  } else {
    reorder(schedule, {column, row});
    unroll(schedule, row);
  }
}

}  // namespace lathe
