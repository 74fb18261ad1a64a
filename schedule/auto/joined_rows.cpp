#include "schedule/auto/joined_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/error.h"
#include "schedule/auto/across_plan.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tile_reader.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/join_rows.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What is estimated to take longer than this part is left as it is.
constexpr double worth_joining = 0.95;
/// Cycles of an element that is copied as it lies in memory, by vectors that cross lines.
constexpr double copy_cycles = 0.25;

struct JoinPlan {
  size_t outer, inner;  ///< iters of the reduction
  std::int64_t rows, row, pitch;
  std::int64_t length() const { return (rows - 1) * pitch + row; }
  bool gaps() const { return pitch > row; }
  Buffer operand;                   ///< the one that they walk
  size_t row_dimension, dimension;  ///< of it, those of the outer and of the inner iter
};

/// Whether the operand lies so that `outer` moves it by whole rows of `inner`, and everything else stands still in
/// both.
std::optional<JoinPlan> joinable(const Block& block, size_t outer, size_t inner) {
  std::optional<JoinPlan> plan;
  const auto rows = constant_extent(block, outer), row = constant_extent(block, inner);
  if (!rows || !row) return std::nullopt;
  const Buffer& result = block.f.writes[0].buffer;
  for (const Access& access : block_accesses(block)) {
    const auto &across = access.strides[outer], &along = access.strides[inner];
    if (access.buffer == result || (across == 0 && along == 0)) continue;
    if (plan || access.masked || along != 1 || !across || *across < 1) return std::nullopt;
    plan = JoinPlan{outer, inner, *rows, *row, *across, access.buffer, 0, 0};
  }
  if (!plan || plan->rows < 2 || plan->pitch < plan->row) return std::nullopt;
  // In gaps an index of a row alone would leave its dimension: the two become one.
  const Load* load = load_of(block, plan->operand);
  const auto walked_by = [&](size_t iter) {
    std::optional<size_t> found;
    for (size_t d = 0; d < load->indices.size(); ++d) {
      if (!uses_var(load->indices[d], block.f.iters[iter].variable.get())) continue;
      if (found) return std::optional<size_t>();
      found = d;
    }
    return found;
  };
  const auto row_dimension = walked_by(outer), dimension = walked_by(inner);
  if (!row_dimension || !dimension || *row_dimension + 1 != *dimension) return std::nullopt;
  plan->row_dimension = *row_dimension;
  plan->dimension = *dimension;
  const std::int64_t* width = as_int(plan->operand->shape[*dimension]);
  return width && *width == plan->pitch ? plan : std::nullopt;
}

bool is_faster(const RuleContext& context, const BlockRef& ref, const ReductionShape& shape, size_t row_iter,
               const JoinPlan& plan) {
  const Block& block = context.schedule.node(ref);
  const std::int64_t lanes = vector_lanes(block, context.device);
  const int bits = widest_bits(block);
  const auto rows = constant_extent(block, row_iter);
  std::int64_t depth = 1;
  for (const size_t i : shape.reduce) depth *= constant_extent(block, i).value_or(0);
  if (!rows || depth == 0) return false;
  double times = 1;
  for (const size_t i : shape.space) {
    if (i != row_iter && i != plan.inner) times *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
  }
  double best = times * choose_tile(context.device, lanes, bits, {rows, plan.row, depth, shape.row_run}).cycles;
  if (const auto across = plan_across(context, ref, shape)) best = std::min(best, across->cycles);
  const TiledExtents joined{rows, plan.length(), depth, shape.row_run};
  times /= static_cast<double>(plan.rows);
  double cycles = times * choose_tile(context.device, lanes, bits, joined).cycles;
  if (plan.gaps()) cycles += copy_cycles * estimated_elements(block.f.writes[0].buffer);
  if (plan.gaps() && !is_allocated(context.schedule.func(), plan.operand))
    cycles += copy_cycles * estimated_elements(plan.operand);
  return cycles < worth_joining * best;
}

/// Of neighbouring dimensions one, rows `pitch` apart.
LayoutMap joined_layout(const Buffer& buffer, size_t row_dimension, size_t dimension, std::int64_t pitch) {
  LayoutMap map{same_layout(buffer->rank()).from, {}};
  for (size_t d = 0; d < buffer->rank(); ++d) {
    if (d == row_dimension) continue;
    map.to.emplace_back(d == dimension ? Expr(map.from[row_dimension]) * pitch + Expr(map.from[d]) : Expr(map.from[d]));
  }
  return map;
}

/// Lays the result out in joined rows.
void lay_result(Schedule& schedule, const BlockRef& ref, const JoinPlan& plan) {
  const Block& block = schedule.node(ref);
  const Region& written = block.f.writes[0];
  std::optional<size_t> row_dimension, dimension;
  for (size_t d = 0; d < written.ranges.size(); ++d) {
    if (written.ranges[d].min == Expr(block.f.iters[plan.outer].variable)) row_dimension = d;
    if (written.ranges[d].min == Expr(block.f.iters[plan.inner].variable)) dimension = d;
  }
  if (!row_dimension || !dimension) throw Refusal("tile_contractions", 0, "the result does not lie along both loops");
  transform_layout(schedule, ref, written.buffer->name,
                   joined_layout(written.buffer, *row_dimension, *dimension, plan.pitch));
}

void join_loops(Schedule& schedule, const BlockRef& ref, const JoinPlan& plan) {
  const auto outer = loop_of_iter(schedule, ref, plan.outer), inner = loop_of_iter(schedule, ref, plan.inner);
  if (!outer || !inner) throw Refusal("tile_contractions", 0, "an iter has no loop of its own");
  join_rows(schedule, *outer, *inner, plan.pitch);
}

/// Joins the loops of the block and of what reads its results there: the one reader, or a copy.
void join_with_reader(RuleContext& context, const BlockRef& ref, const ReductionShape& shape, const JoinPlan& plan,
                      const std::optional<size_t>& vectors) {
  Schedule& schedule = context.schedule;
  const auto found = element_wise_reader(context, ref, shape, vectors);
  const BlockRef reader = found ? *found : cache_write(schedule, ref, space::global);
  std::optional<LoopRef> outer, inner;
  for (const auto& [iter, loop] : matched_loops(schedule.node(ref), schedule.node(reader))) {
    if (iter == plan.outer) outer = loop;
    if (iter == plan.inner) inner = loop;
  }
  if (!outer || !inner) throw Refusal("tile_contractions", 0, "the reader has no such loops");
  lay_result(schedule, ref, plan);
  join_loops(schedule, ref, plan);
  join_rows(schedule, *outer, *inner, plan.pitch);
}

void apply(RuleContext& context, const BlockRef& ref, const ReductionShape& shape, const JoinPlan& plan) {
  Schedule& schedule = context.schedule;
  const std::string operand = plan.operand->name;
  if (plan.gaps()) {
    if (!is_allocated(schedule.func(), schedule.node(ref).f.writes[0].buffer))
      cache_write(schedule, ref, space::global);
    std::string read = operand;
    if (!is_allocated(schedule.func(), plan.operand))
      read = schedule.node(cache_read(schedule, ref, operand, space::global)).f.writes[0].buffer->name;
    transform_layout(schedule, ref, read, joined_layout(plan.operand, plan.row_dimension, plan.dimension, plan.pitch));
    lay_result(schedule, ref, plan);
    join_loops(schedule, ref, plan);
    return;
  }
  join_with_reader(context, ref, shape, plan, plan.inner);
}

/// Whether every array that moves with one of two iters lies in one piece along both, and an operand moves with
/// neither.
std::optional<JoinPlan> one_axis(const Block& block, size_t outer, size_t inner) {
  const auto rows = constant_extent(block, outer), row = constant_extent(block, inner);
  if (!rows || !row || *rows < 2 || *row < 2) return std::nullopt;
  const Buffer& result = block.f.writes[0].buffer;
  bool shared = false;
  for (const Access& access : block_accesses(block)) {
    const auto &across = access.strides[outer], &along = access.strides[inner];
    if (access.masked || !across || !along) return std::nullopt;
    if (*along == 0 && *across == 0) {
      shared |= access.buffer != result;
    } else if (*along == 0 || *across != *along * *row) {
      return std::nullopt;
    }
  }
  if (!shared) return std::nullopt;
  return JoinPlan{outer, inner, *rows, *row, *row, {}, 0, 0};
}

/// The first two space iters that one axis could take the place of, but for the one that vectors walk.
std::optional<JoinPlan> find_axes(const Block& block, const ReductionShape& shape,
                                  const std::optional<size_t>& vectors) {
  for (const size_t outer : shape.space) {
    for (const size_t inner : shape.space) {
      if (outer == inner || outer == vectors || inner == vectors) continue;
      if (auto plan = one_axis(block, outer, inner)) return plan;
    }
  }
  return std::nullopt;
}

}  // namespace

void join_row_axes(RuleContext& context, const BlockRef& ref) {
  for (;;) {
    const Block& block = context.schedule.node(ref);
    const std::optional<ReductionShape> shape = reduction_shape(block);
    if (!shape || shape->reduce.empty() || shape->loads < 2) return;
    const std::optional<size_t> vectors = shape->vector_space ? shape->vector_space : shape->columns;
    const std::optional<JoinPlan> plan = find_axes(block, *shape, vectors);
    if (!plan || !attempt(context, fmt::format("join axes of {} to {} rows", ref.name, plan->rows * plan->row),
                          [&] { join_with_reader(context, ref, *shape, *plan, vectors); }))
      return;
  }
}

void join_short_rows(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape || !shape->vector_space || !shape->rows || shape->reduce.empty() || shape->column_run > 0) return;
  for (const size_t outer : shape->space) {
    if (outer == *shape->vector_space || outer == *shape->rows) continue;
    const std::optional<JoinPlan> plan = joinable(block, outer, *shape->vector_space);
    if (!plan || !is_faster(context, ref, *shape, *shape->rows, *plan)) continue;
    attempt(context, fmt::format("join rows of {}, {} apart", ref.name, plan->pitch),
            [&] { apply(context, ref, *shape, *plan); });
    return;
  }
}

}  // namespace lathe
