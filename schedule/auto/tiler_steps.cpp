#include <algorithm>

#include "ir/conjuncts.h"
#include "ir/error.h"
#include "ir/passes/pad_temporaries.h"
#include "ir/visitor.h"
#include "schedule/auto/ask_for_results.h"
#include "schedule/auto/ask_next_tile.h"
#include "schedule/auto/ragged.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tiler.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Steps ahead for which a tile asks for the lines of a packed panel that comes from the second cache, where each
/// multiplication wants a line (measured on Cascade Lake, 6 x 4 over panels of 64 KB and more: 0.98 of the peak,
/// without 0.89; 2 to 16 steps are alike).
constexpr std::int64_t steps_ahead = 4;
/// The same where a tile takes several steps at once, of one line each (6 x 2 of 256 bits over panels of 32 KB and
/// more: 0.96 of the time; panels that stay in the first cache lose nothing).
constexpr std::int64_t short_steps_ahead = 8;
/// Bytes ahead for which a tile asks of packed rows, and the cycles that it takes for a line of them below which it
/// does: one stream, which hardware follows too late then (measured on Zen 4, AVX2, 1 MB to 18 MB of rows: 16 cycles a
/// line 0.7 of the time from 2 KB on, 0.82 with 512 bytes; with AVX-512, 48 cycles a line, 1.0).
constexpr std::int64_t rows_ahead = 4096, cycles_of_line = 32;
/// Bytes of a row from which on tiles of dot products ask for those of the next tile: few cycles take many of them
/// (measured on Zen 4, rows of 24 MB of int8 by 4 to 12 columns: of 512 bytes 0.53 to 0.6 of the time, of 2 KB 0.8 to
/// 0.93, of 256 bytes 0.9 to 1.2).
constexpr std::int64_t least_run_of_dots = 512;

/// Updates of registers up to which the steps of a tile are unrolled: of maxima, of which those side by side take two
/// instructions an element in the place of three, nine steps of a row of eight vectors (measured on Zen 4: windows of
/// 3x3 over 56x56 0.73 of the time, 3x3 by 2 over 28x28 0.8, 5x5 by 2 over 112x112 0.7); as many of sums of neighbours
/// over windows of several axes, and of others fewer (depthwise 3x3 over 28x28 0.75, over 56x56 0.92; sums of seven
/// products 0.92 to 1, and two thirds longer to compile).
constexpr std::int64_t most_unrolled_updates = 72, most_unrolled_along_axis = 48;

}  // namespace

std::int64_t Tiler::most_updates(size_t vectors) const {
  const Block& block = schedule_.node(block_);
  if (is_float_extreme(block)) {
    // Of terms that take longer fewer are compiled one behind the other.
    const double longer = std::max(1.0, body_cost(block) / costly_update);
    return static_cast<std::int64_t>(static_cast<double>(most_unrolled_updates) / longer);
  }
  const Accesses accesses = block_accesses(block);
  const bool neighbours = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.store || access.strides[vectors] == 0 || access.strides[vectors] == 1;
  });
  if (!neighbours) return 0;
  return shape_.reduce.size() > 1 ? most_unrolled_updates : most_unrolled_along_axis;
}

void Tiler::unroll_few_steps(const std::vector<LoopRef>& order, const RegisterTile& tile, size_t vectors) {
  const std::int64_t most = most_updates(vectors);
  const std::optional<size_t> ended = ended_by_data(schedule_.node(block_));
  const auto is_ended = [&](const LoopRef& loop) {
    return ended && uses_var(schedule_.node(block_).f.bindings[*ended], schedule_.node(loop).variable.get());
  };
  std::int64_t updates = tile.rows * tile.vectors;
  size_t first = order.size();
  while (first > 0) {
    const std::int64_t* steps = as_int(schedule_.node(order[first - 1]).extent);
    if (!steps || updates * *steps > most || is_ended(order[first - 1])) break;
    updates *= *steps;
    unroll(schedule_, order[--first]);
  }
  if (first > 0 || !is_float_extreme(schedule_.node(block_))) return;
  // Vector by vector, registers and masks are free again soon (0.75 to 0.9 of the time of step by step).
  std::vector<LoopRef> inside = own_loops(schedule_, block_);
  // Not where a step finds the row that it takes, beside the vectors.
  if (inside.size() <= order.size() || !std::equal(order.begin(), order.end(), inside.begin())) return;
  std::rotate(inside.begin(), inside.begin() + static_cast<std::ptrdiff_t>(order.size()), inside.end() - 1);
  reorder(schedule_, inside);
}

void Tiler::take_windows(StepLoops& loops, bool in_turns) {
  std::vector<LoopRef>& order = loops.order;
  const auto met = std::find(order.begin(), order.end(), driving_loop(schedule_, block_, windows_->steps));
  LATHE_CHECK(met != order.end() || !in_turns, "turns are taken over a loop");
  if (in_turns) {
    std::rotate(order.begin(), met, met + 1);
  } else if (met != order.end()) {
    std::rotate(met, met + 1, order.end());
  }
  for (const LoopRef& loop : order) {
    if (!in_turns || loop != order.front()) unroll(schedule_, loop);
  }
  // The loops within a tile: its rows, its vectors where there are several, and their lanes.
  std::vector<LoopRef> inside = own_loops(schedule_, block_), sorted;
  std::erase_if(inside,
                [&](const LoopRef& loop) { return std::find(order.begin(), order.end(), loop) != order.end(); });
  LATHE_CHECK(loops.row && inside.size() >= 2 && inside.size() <= 3 && inside.front() == *loops.row,
              "a tile of windows has rows, vectors and lanes");
  sorted.assign(inside.begin() + 1, inside.end() - 1);
  sorted.insert(in_turns ? sorted.begin() : sorted.end(), order.begin(), order.end());
  sorted.insert(sorted.end(), {*loops.row, inside.back()});
  reorder(schedule_, sorted);
}

void Tiler::keep_masks(size_t vectors) {
  const Block& block = schedule_.node(block_);
  const Var* along = block.f.iters[vectors].variable.get();
  bool masked = false, by_lanes = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    masked |= load && load->mask;
    by_lanes |= load && load->mask && uses_var(load->mask, along);
  });
  if (!masked || by_lanes) return;
  for (const LoopRef& loop : schedule_.loops(block_)) annotate(schedule_, loop, masked_loads_key, 1);
}

void Tiler::prefetch_panel(std::int64_t columns) {
  const auto loop = steps_loop_ ? steps_loop_ : own_loop(shape_.reduce.back());
  if (loop) annotate(schedule_, *loop, "prefetch_offset", columns);
}

void Tiler::prefetch_steps(const LoopRef& steps, std::int64_t panel_bytes, std::int64_t step_elements) {
  if (multiplies_lines(context_.device) && panel_bytes > context_.device.caches.front().bytes)
    annotate(schedule_, steps, "prefetch_offset", steps_ahead * step_elements);
}

bool Tiler::ask_for_packed_rows(const RegisterTile& tile, const LoopRef& steps) {
  if (context_.device.caches.empty()) return false;
  const std::int64_t bytes = schedule_.node(block_).f.writes[0].buffer->dtype.bytes(),
                     elements = context_.device.caches.front().line_bytes / bytes;
  if (elements * tile.vectors >= cycles_of_line * context_.device.fma_per_cycle) return false;
  annotate(schedule_, steps, "prefetch_elements", rows_ahead / bytes);
  return true;
}

bool Tiler::is_bounded(const LoopRef& steps) const {
  const Block& block = schedule_.node(block_);
  const std::vector<LoopRef> loops = schedule_.loops(block_);
  const std::vector<Expr> conditions = conjuncts_of(block.f.predicate);
  return std::any_of(conditions.begin(), conditions.end(), [&](const Expr& condition) {
    return uses_var(condition, steps.variable.get()) &&
           std::any_of(loops.begin(), loops.end(), [&](const LoopRef& loop) {
             return uses_var(condition, loop.variable.get()) && drives(block, IterKind::space, schedule_.node(loop));
           });
  });
}

void Tiler::walk_short_steps_outside() {
  const auto bounded = [&](size_t iter) {
    const auto loop = own_loop(iter);
    return loop && is_bounded(*loop);
  };
  const Block& block = schedule_.node(block_);
  std::int64_t most = 0;
  for (const size_t i : shape_.reduce) {
    if (!bounded(i)) most = std::max(most, extent_estimate(block.f.iters[i].domain.extent));
  }
  std::stable_partition(shape_.reduce.begin(), shape_.reduce.end(),
                        [&](size_t i) { return bounded(i) && extent_estimate(block.f.iters[i].domain.extent) < most; });
}

std::optional<LoopRef> Tiler::take_steps_together(const RegisterTile& tile, std::vector<LoopRef>& order) {
  const std::int64_t* steps = order.empty() ? nullptr : as_int(schedule_.node(order.back()).extent);
  if (!steps || is_bounded(order.back())) return std::nullopt;
  double cycles = tile.cycles;
  for (const size_t i : shape_.space) {
    const std::int64_t extent = extent_estimate(schedule_.node(block_).f.iters[i].domain.extent);
    if (i != shape_.rows && i != shape_.vector_space) cycles *= static_cast<double>(extent);
  }
  const std::int64_t count = steps_together(context_.device, tile, cycles, *steps);
  if (count == 1 || (count == *steps && order.size() == 1)) return std::nullopt;
  if (count < *steps) {
    const auto [outer, inner] = split(schedule_, order.back(), count);
    order.back() = outer;
    order.push_back(inner);
  }
  steps_loop_ = order[order.size() - 2];
  return order.back();
}

std::optional<LoopRef> Tiler::lay_steps(const RegisterTile& tile, std::vector<LoopRef>& order) {
  const std::optional<LoopRef> together = take_steps_together(tile, order);
  if (!together && !across_ && !copy_) ask_for_results(context_, block_, reader_, tile.rows, order);
  return together;
}

std::optional<LoopRef> Tiler::divisible(const std::vector<LoopRef>& loops, std::int64_t chains) const {
  for (size_t i = loops.size(); i-- > 0;) {
    const std::int64_t* extent = as_int(schedule_.node(loops[i]).extent);
    if (extent && (*extent % chains == 0 || *extent >= 4 * chains)) return loops[i];
  }
  return std::nullopt;
}

Tiler::StepLoops Tiler::lay_step_loops(const SpacePlan& plan) {
  StepLoops loops;
  std::vector<LoopRef>& order = loops.order;
  walk_short_steps_outside();
  for (const size_t i : shape_.reduce) {
    const auto loop = own_loop(i);
    if (loop && dot_ && i == dot_->step) {
      const auto [outer, inner] = split(schedule_, *loop, dot_->group);
      loops.groups = outer;
      loops.group = inner;
      order.push_back(outer);
    } else if (loop) {
      order.push_back(*loop);
    }
  }
  if (const auto divided = plan.tile.chains > 1 && !dot_ ? divisible(order, plan.tile.chains) : std::nullopt) {
    const auto [steps, inner] = split(schedule_, *divided, plan.tile.chains);
    std::replace(order.begin(), order.end(), *divided, steps);
    order.push_back(inner);
    loops.chain = inner;
  }
  if (plan.shared && !others_ && !dot_ && !loops.chain) loops.together = lay_steps(plan.tile, order);
  if (others_ && !loops.chain && !multiplies_lines(context_.device))
    ask_for_results(context_, block_, reader_, paired_.rows * paired_.others, order);
  const size_t inner_steps = (loops.chain ? 1 : 0) + (loops.together ? 1 : 0);
  if (!across_ && order.size() > inner_steps) {
    const LoopRef& steps = order[order.size() - 1 - inner_steps];
    if (far_parts_) {
      ask_next_part(context_, *far_parts_, steps);
    } else if (!packs_rows_ || !ask_for_packed_rows(plan.tile, steps)) {
      ask_next_tile(context_, block_, steps, outside_ - part_loops(), part_loops(), dot_ ? least_run_of_dots : 0);
    }
  }
  loops.row = shape_.rows ? own_loop(*shape_.rows) : std::nullopt;
  loops.column = own_loop(plan.vectors);
  loops.other = others_ ? own_loop(*others_) : std::nullopt;
  std::vector<LoopRef> all = order;
  // The operand of more rows outside: its vectors follow each other, and those of the other stay in registers.
  const bool rows_follow = others_ && paired_.rows > paired_.others;
  for (const std::optional<LoopRef>& loop :
       {rows_follow ? loops.row : loops.other, rows_follow ? loops.other : loops.row, loops.column, loops.group}) {
    if (loop) all.push_back(*loop);
  }
  reorder(schedule_, all);
  return loops;
}

void Tiler::ask_in_steps(const SpacePlan& plan, const StepLoops& loops) {
  const std::optional<Access>& operand = plan.operand;
  if (loops.groups && dot_ && operand) {
    const std::int64_t step = plan.width * dot_->group;
    prefetch_steps(*loops.groups, plan.depth.value_or(0) * step * operand->buffer->dtype.bytes(), step);
  }
  if (loops.group && dot_) mark_groups(context_, *loops.group, *dot_);
  if (operand && !across_ && !plan.by_panels && !plan.packed && !dot_ && !loops.chain && !made_by_panels(*operand)) {
    const bool once = plan.rows && *plan.rows <= plan.tile.rows;
    const auto next = plan.far ? plan.width : once ? next_panel(plan.vectors) : std::nullopt;
    if (next) prefetch_panel(*next);
  }
  if (plan.packed && loops.together) {
    prefetch_panel(short_steps_ahead * plan.width);
  } else if (plan.packed && !loops.chain) {
    if (const auto steps = own_loop(shape_.reduce.back())) prefetch_steps(*steps, plan.panel_bytes(), plan.width);
  }
}

}  // namespace lathe
