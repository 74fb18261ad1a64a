#include "schedule/auto/cut_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The part of the first cache that a part of a panel fills at the most, and the least of that worth a cut: the rest is
/// for what rows read, and each part loads and stores all sums once (measured on Cascade Lake: 3x3 convolutions of 64
/// to 256 channels, in parts of 9 and 18 KB, 0.84 to 0.93 of the time; with AVX2 alone 0.76 to 0.83).
constexpr std::int64_t first_cache_part = 3, least_filled = 4;
/// The part of the second cache that a block's results fill at the most: they come from there for each part of a sum.
constexpr std::int64_t second_cache_part = 16;
/// Steps up to which a sum stays whole, and the most of a part of a longer one: adding a part up takes a hundredth of
/// what it takes to make, and the loops around it some milliseconds to compile.
constexpr std::int64_t most_whole_steps = 1024, most_part_steps = 512;
/// Rows that meet each part of a deep panel before the next part, so that all that is packed at a time stays in the
/// second cache: operands stream past fewer (stream_rows), and the results of more come from far away for each part
/// (measured on Zen 3: 9x4096x4096 0.23 of the time, 16x4096x4096 0.62, 32x4096x4096 0.71, 64x1024x4096 0.8,
/// 128x512x2048 0.97, 128x4096x4096 and 256x4096x2048 1.1, 3072x768x3072 1.05).
constexpr std::int64_t least_deep_rows = 9, most_deep_rows = 96;
/// Tasks that blocks leave for each core.
constexpr std::int64_t tasks_of_core = 4;

/// Besides what tiles walk, the iter along which results lie nearest and the operand stands still.
std::optional<size_t> nearest_sharing(const Block& block, const ReductionShape& shape, size_t vectors, size_t rows,
                                      const Buffer& operand) {
  std::vector<std::int64_t> apart(block.f.iters.size(), 0);
  for (const Access& access : block_accesses(block)) {
    for (size_t i = 0; i < apart.size(); ++i) {
      if (access.store) apart[i] = std::max(apart[i], access.strides[i].value_or(0));
      if (access.buffer == operand && access.strides[i] != 0) apart[i] = std::numeric_limits<std::int64_t>::min();
    }
  }
  std::optional<size_t> nearest;
  for (const size_t i : shape.space) {
    if (i == vectors || i == rows || apart[i] <= 0 || constant_extent(block, i).value_or(1) == 1) continue;
    if (!nearest || apart[i] < apart[*nearest]) nearest = i;
  }
  return nearest;
}

}  // namespace

std::optional<StepCut> plan_step_cut(const RuleContext& context, const Block& block, const ReductionShape& shape,
                                     size_t vectors, size_t rows, const Buffer& operand, std::int64_t width) {
  const Device& device = context.device;
  if (!tiles_fill_slots(device) || device.caches.size() < 2) return std::nullopt;
  const std::int64_t near = device.caches[0].bytes, step_bytes = width * operand->dtype.bytes();
  std::int64_t depth = 1;
  for (const size_t i : shape.reduce) depth *= constant_extent(block, i).value_or(0);
  if (depth * step_bytes <= near) return std::nullopt;
  // The outermost iter that has a divisor whose steps fill a part.
  const std::int64_t most_steps = near / first_cache_part / step_bytes;
  std::optional<StepCut> cut;
  for (const size_t i : shape.reduce) {
    const std::int64_t extent = constant_extent(block, i).value_or(1), within = depth / extent;
    const std::int64_t steps = greatest_divisor(extent, 1, most_steps / within).value_or(1);
    if (steps * within > most_steps || steps * within * least_filled < most_steps) continue;
    cut = StepCut{i, steps, std::nullopt, 1};
    break;
  }
  if (!cut) return std::nullopt;

  std::int64_t tasks = 1;
  for (const size_t i : shape.space) {
    const std::int64_t extent = constant_extent(block, i).value_or(1);
    if (i != rows) tasks *= i == vectors ? extent / width : extent;
  }
  const std::int64_t row_bytes = constant_extent(block, rows).value_or(1) * step_bytes;
  const std::int64_t room = device.caches[1].bytes / second_cache_part / row_bytes,
                     shared = tasks / (tasks_of_core * device.cores);
  const auto nearest = nearest_sharing(block, shape, vectors, rows, operand);
  const std::int64_t size =
      nearest ? greatest_divisor(constant_extent(block, *nearest).value_or(1), 1, std::min(room, shared)).value_or(1)
              : 1;
  if (size > 1) {
    cut->blocked = nearest;
    cut->block = size;
  }
  return cut;
}

std::optional<StepCut> plan_accurate_cut(const Block& block, const ReductionShape& shape) {
  if (!block.f.writes[0].buffer->dtype.is_float() || !reduces(block, {BinaryOp::add})) return std::nullopt;
  std::optional<size_t> steps;
  for (const size_t i : shape.reduce) {
    if (constant_extent(block, i) == 1) continue;
    if (steps) return std::nullopt;
    steps = i;
  }
  const auto depth = steps ? constant_extent(block, *steps) : std::nullopt;
  if (!depth || *depth <= most_whole_steps) return std::nullopt;
  const std::int64_t parts = (*depth + most_part_steps - 1) / most_part_steps, even = (*depth + parts - 1) / parts;
  return StepCut{*steps, greatest_divisor(*depth, most_part_steps / 2, most_part_steps).value_or(even), std::nullopt,
                 1};
}

namespace {

bool cuts_deep_sums(const Device& device) {
  return tiles_fill_slots(device) && !lacks_issue_slots(device) && device.caches.size() >= 2;
}

}  // namespace

bool takes_parts_outside(const Device& device, std::int64_t rows, std::int64_t steps) {
  return cuts_deep_sums(device) && rows >= least_deep_rows && rows <= most_deep_rows && steps > most_whole_steps;
}

std::optional<StepCut> plan_deep_cut(const RuleContext& context, const Block& block, const ReductionShape& shape) {
  const Device& device = context.device;
  if (!cuts_deep_sums(device) || !shape.vector_space || !shape.rows || shape.row_run > 0 || shape.column_run > 0 ||
      paired_rows(block, shape, *shape.vector_space))
    return std::nullopt;
  const auto rows = constant_extent(block, *shape.rows);
  const auto operand = vector_operand(block, *shape.rows, *shape.vector_space);
  if (!rows || !operand) return std::nullopt;
  std::int64_t all_rows = 1;
  for (const size_t i : shape.space) {
    if (i != shape.vector_space) all_rows *= extent_estimate(block.f.iters[i].domain.extent);
  }
  // What the kernel makes itself lies as panels do, or is yet to.
  const std::vector<Buffer> params = buffer_params(context.schedule.func());
  const std::int64_t bytes = operand->buffer->dtype.bytes();
  if (*rows < least_deep_rows || all_rows > most_deep_rows ||
      std::find(params.begin(), params.end(), operand->buffer) == params.end() ||
      estimated_elements(operand->buffer) * static_cast<double>(bytes) <= static_cast<double>(own_cache_bytes(device)))
    return std::nullopt;
  const auto cut = plan_accurate_cut(block, shape);
  return cut && is_scattered(cut->steps * operand->distances[cut->reduce] * bytes) ? cut : std::nullopt;
}

BlockRef cut_sums(RuleContext& context, const BlockRef& reduction, const StepCut& cut) {
  Schedule& schedule = context.schedule;
  const auto loop = loop_of_iter(schedule, reduction, cut.reduce);
  if (!loop) throw Refusal("tile_contractions", 0, "no loop walks the steps that are cut");
  const std::string rows = cut.block > 1 ? fmt::format(", {} rows at a time", cut.block) : "";
  context.note(fmt::format("take {} in parts of {} steps{}", reduction.name, cut.steps, rows));
  const LoopRef part = split(schedule, *loop, cut.steps).first;
  // Loops around the parts would be shared by what makes and what adds them.
  std::vector<LoopRef> order = own_loops(schedule, reduction);
  std::erase(order, part);
  order.insert(order.begin(), part);
  reorder(schedule, order);
  const BlockRef partial = partial_results(schedule, reduction, part);
  set_space(schedule, partial, space::registers);
  context.scheduled.insert(reduction.name);
  return partial;
}

LoopRef add_in_tile(RuleContext& context, const BlockRef& total, size_t vectors, std::int64_t lanes) {
  Schedule& schedule = context.schedule;
  const auto part = driving_loop(schedule, total, schedule.node(total).f.iters.size() - 1);
  LATHE_CHECK(part, "what adds parts up has a loop over them");
  std::vector<LoopRef> order = own_loops(schedule, total);
  std::erase(order, *part);
  const auto column = driving_loop(schedule, total, vectors);
  if (column) {
    std::erase(order, *column);
    order.push_back(*column);
  }
  order.insert(order.begin(), *part);
  reorder(schedule, order);
  const BlockRef zeros = decompose_reduction(schedule, total, *part);
  for (const BlockRef& ref : {zeros, total}) {
    std::vector<LoopRef> loops = own_loops(schedule, ref);
    if (ref == total) std::erase(loops, *part);
    for (size_t i = 0; i + 1 < loops.size(); ++i) unroll(schedule, loops[i]);
    vectorize_columns(schedule, loops.back(), lanes);
  }
  context.scheduled.insert(zeros.name);
  return *part;
}

LoopRef lay_parts(RuleContext& context, const BlockRef& total, size_t rows, size_t vectors, std::int64_t lanes) {
  Schedule& schedule = context.schedule;
  std::vector<LoopRef> order = own_loops(schedule, total);
  const auto take = [&](size_t iter) {
    const auto loop = driving_loop(schedule, total, iter);
    LATHE_CHECK(loop, "a block that was moved has a loop for each iter");
    std::erase(order, *loop);
    return *loop;
  };
  const LoopRef part = take(schedule.node(total).f.iters.size() - 1), row = take(rows), column = take(vectors);
  order.insert(order.begin(), part);
  order.insert(order.end(), {row, column});
  reorder(schedule, order);
  const BlockRef zeros = decompose_reduction(schedule, total, part);
  vectorize_columns(schedule, own_loops(schedule, zeros).back(), lanes);
  context.scheduled.insert(zeros.name);
  return row;
}

}  // namespace lathe
