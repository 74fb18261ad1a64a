#include "schedule/auto/share_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>

#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/streamed_operand.h"
#include "schedule/commutes.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Time of a part, from which on starting it and adding its results up no longer matter; and the parts that are enough
/// for any number of cores.
constexpr double part_nanoseconds = 4'000;
constexpr std::int64_t most_parts = 64, least_parts = 4;
/// Rounding errors of terms that are alike add up over a chain of additions: 4,096 to 6e-5 of the sum in f32. So many
/// are to be in one, along rows in as many chains and down columns by as many rows at once; from so many on there are
/// parts.
constexpr double sum_chains = 4, rows_together = 8, most_additions = 512, least_additions = 2048;
/// Tasks that results make by themselves are enough from here on.
constexpr std::int64_t enough_tasks = 8;
/// Rows and vectors of a task over a product's results.
constexpr std::int64_t tile_rows = 8, tile_vectors = 2;
/// Parts of a product that each core has at the least, where lines from memory speak for an axis that has no more.
constexpr std::int64_t parts_a_core = 4;
/// Parts of a row end where whole vectors do, several chains of them.
constexpr std::int64_t part_multiple = 256;
/// Bytes of a piece of memory that a sum of several of them reads as fast as whole arrays (measured on Zen 4: sums of
/// channels of 64x64x56x56, 12 KB each, 0.5 of the time in the order of memory; of three quarters of the last cache,
/// pieces of 200 bytes to 200 KB 0.42 to 0.5, from half of it on 1.0).
constexpr std::int64_t longest_piece = 256 << 10;
/// Results of a part, as a share of the elements that it reduces, for which adding the parts up costs little.
constexpr double most_results = 1.0 / 32;

/// Pieces of the results that tasks can have apart from each other.
double tasks_of(const Block& block, const std::optional<ReductionShape>& shape, const Device& device) {
  double tasks = 1;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind != IterKind::space) continue;
    const std::int64_t extent = extent_estimate(block.f.iters[i].domain.extent);
    std::int64_t together = 1;
    if (shape && (shape->vector_space == i || shape->columns == i))
      together = std::max(tile_vectors * vector_lanes(block, device), streamed_columns(block, *shape, device));
    if (shape && shape->loads > 1 && shape->rows == i) together = tile_rows;
    tasks *= std::ceil(static_cast<double>(extent) / static_cast<double>(together));
  }
  return tasks;
}

/// Parts that threads have something to do by; 0 where results are tasks enough.
std::int64_t parts_for_threads(const RuleContext& context, const Block& block,
                               const std::optional<ReductionShape>& shape) {
  if (context.device.cores < 2 || tasks_of(block, shape, context.device) >= enough_tasks) return 0;
  if (shape && shares_columns(block, *shape, context.device)) return 0;
  const double time = instance_count(block) * instance_nanoseconds(block, true);
  return static_cast<std::int64_t>(std::min<double>(time / part_nanoseconds, most_parts));
}

/// Parts of a long sum of floats, in which none of its chains has more than so many additions; 0 of a shorter one.
std::int64_t parts_for_accuracy(const RuleContext& context, const Block& block,
                                const std::optional<ReductionShape>& shape) {
  if (!shape || shape->rows || simple_op(*block.f.reducer) != BinaryOp::add ||
      !block.f.writes[0].buffer->dtype.is_float())
    return 0;
  double terms = 1;
  for (const size_t i : shape->reduce) terms *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
  const double chains = shape->vector_reduce ? sum_chains * vector_lanes(block, context.device) : rows_together;
  const double additions = terms / chains;
  if (additions < least_additions) return 0;
  // As many parts as additions in each, where there are so many that those of parts weigh as well.
  return std::max(least_parts, static_cast<std::int64_t>(std::min(additions / most_additions, std::sqrt(additions))));
}

/// The loop to cut, and how long its parts are.
struct Cut {
  LoopRef loop;
  std::int64_t length;
};

/// The length of about `parts` equal parts; where nothing is tiled later, the last may be shorter, under a mask.
std::optional<std::int64_t> part_length(std::int64_t extent, std::int64_t parts, bool masked) {
  for (std::int64_t count = parts; count >= least_parts; --count) {
    if (extent % count == 0) return extent / count;
  }
  const std::int64_t length = (extent + parts - 1) / parts;
  if (!masked || length < part_multiple) return std::nullopt;
  return (length + part_multiple - 1) / part_multiple * part_multiple;
}

/// The iterations of a loop along the reduction that begins at 0; nothing of others.
std::optional<std::int64_t> steps_along(const Schedule& schedule, const Block& block, const LoopRef& loop) {
  const For& node = schedule.node(loop);
  const std::int64_t* extent = as_int(node.extent);
  return extent && is_int(node.min, 0) && drives(block, IterKind::reduce, node) ? std::optional(*extent) : std::nullopt;
}

/// Would the parts end rows that vectors walk too soon?
bool breaks_rows(const Schedule& schedule, const BlockRef& ref, const std::optional<ReductionShape>& shape,
                 const Cut& cut) {
  return shape && shape->vector_reduce && loop_of_iter(schedule, ref, *shape->vector_reduce) == cut.loop &&
         cut.length < part_multiple;
}

/// The loop along the reduction that has enough iterations, or the longest: the first that has twice as many.
std::optional<Cut> plan_cut(const RuleContext& context, const BlockRef& ref, const std::optional<ReductionShape>& shape,
                            std::int64_t parts) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  std::optional<Cut> best;
  std::int64_t longest = 0;
  for (const LoopRef& loop : own_loops(schedule, ref)) {
    const auto extent = steps_along(schedule, block, loop);
    if (!extent || *extent < std::max(parts, longest + 1)) continue;
    const auto length = part_length(*extent, parts, !shape || !shape->vector_space);
    if (!length || breaks_rows(schedule, ref, shape, {loop, *length})) continue;
    best = {loop, *length};
    if (*extent >= 2 * parts) return best;
    longest = *extent;
  }
  return best;
}

/// How well a product is cut into parts of some iterations of a loop: what they take from memory, in lines, of which
/// they may use some bytes only; whether some array has neighbours along the loop, which vectors may want to walk; and
/// how far a step goes through the largest array. The less the better, in this order.
struct CutRank {
  double lines = 0;
  bool neighbours = false;
  std::int64_t nearness = 0;

  auto operator<=>(const CutRank&) const = default;
};

CutRank rank_of(const Device& device, const Block& block, const Accesses& accesses, const Cut& cut) {
  const double line = static_cast<double>(device.caches.empty() ? 1 : device.caches.front().line_bytes);
  CutRank rank;
  double largest = 0;
  for (const Access& access : accesses) {
    if (access.store || access.buffer == block.f.writes[0].buffer) continue;
    const double bytes = static_cast<double>(access.buffer->dtype.bytes()),
                 array = estimated_elements(access.buffer) * bytes;
    double piece = line;
    std::int64_t distance = 0;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (!uses_var(block.f.bindings[i], cut.loop.variable.get())) continue;
      // Steps that are known at run time alone are taken for long ones.
      const auto stride = static_cast<double>(std::abs(access.strides[i].value_or(0)));
      if (stride > 0) piece = std::min(piece, stride * bytes * static_cast<double>(cut.length));
      rank.neighbours |= stride == 1;
      distance = std::max(distance, access.distances[i]);
    }
    rank.lines += array / std::max(piece, bytes);
    if (array > largest) {
      largest = array;
      rank.nearness = -distance;
    }
  }
  return rank;
}

/// The same of a product, whose vectors may walk any axis once operands are copied.
std::optional<Cut> plan_product_cut(const RuleContext& context, const BlockRef& ref, const ReductionShape& shape,
                                    std::int64_t parts) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const Accesses accesses = block_accesses(block);
  const std::int64_t least = std::min(parts, parts_a_core * context.device.cores);
  std::optional<Cut> best;
  CutRank best_rank;
  for (const LoopRef& loop : own_loops(schedule, ref)) {
    const auto extent = steps_along(schedule, block, loop);
    if (!extent || *extent < least) continue;
    auto length = part_length(*extent, std::min(parts, *extent), !shape.vector_space);
    if (!length && *extent <= most_parts) length = 1;
    if (!length) continue;
    const Cut cut{loop, *length};
    if (breaks_rows(schedule, ref, shape, cut)) continue;
    const CutRank rank = rank_of(context.device, block, accesses, cut);
    if (best && best_rank <= rank) continue;
    best = cut;
    best_rank = rank;
  }
  return best;
}

/// Lays out the loops that add the parts up: a vector of results, all its parts, the next. Later rules leave them
/// alone, and what makes the parts in a nest of its own.
void add_up(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  context.scheduled.insert(ref.name);
  std::vector<LoopRef> order = own_loops(schedule, ref);
  if (order.size() < 2 || block.f.writes.size() != 1) return;
  std::stable_partition(order.begin(), order.end(),
                        [&](const LoopRef& loop) { return !drives(block, IterKind::reduce, schedule.node(loop)); });
  const LoopRef parts = order.back(), column = order[order.size() - 2];
  const std::int64_t* extent = as_int(schedule.node(column).extent);
  const std::int64_t lanes = vector_lanes(block, context.device);
  order.erase(order.end() - 2, order.end());
  if (!extent || *extent < 2) return;
  if (*extent > lanes) {
    const auto [vectors, within] = split(schedule, column, lanes);
    order.insert(order.end(), {vectors, parts, within});
  } else {
    order.insert(order.end(), {parts, column});
  }
  reorder(schedule, order);
  decompose_reduction(schedule, ref, parts);
  vectorize(schedule, order.back());
}

/// Returns what makes the parts.
BlockRef cut(RuleContext& context, const BlockRef& ref, const Cut& plan) {
  return make_parts(context, ref, split(context.schedule, plan.loop, plan.length).first);
}

/// A part for each step of the loop that goes farthest through an array from memory, where results lie side by side
/// within such a step in short pieces, as the channels of an image do: to add up each result by itself jumps from piece
/// to piece.
std::optional<Cut> cut_in_order(const RuleContext& context, const BlockRef& ref,
                                const std::optional<ReductionShape>& shape) {
  const Block& block = context.schedule.node(ref);
  const Device& device = context.device;
  if (device.caches.empty() || !shape || shape->rows) return std::nullopt;
  for (const Access& access : block_accesses(block)) {
    if (access.store || access.buffer == block.f.writes[0].buffer) continue;
    const double bytes = static_cast<double>(access.buffer->dtype.bytes()) *
                         estimated_elements(access.buffer, context.schedule.func()->facts);
    if (!comes_from_memory(device, bytes)) continue;
    std::optional<size_t> farthest, piece;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const std::int64_t extent = extent_estimate(block.f.iters[i].domain.extent);
      if (!access.strides[i]) return std::nullopt;
      const std::int64_t stride = std::abs(*access.strides[i]);
      if (extent == 1 || stride == 0) continue;
      if (!farthest || stride > std::abs(*access.strides[*farthest])) farthest = i;
      if (block.f.iters[i].kind == IterKind::space && (!piece || stride > std::abs(*access.strides[*piece]))) piece = i;
    }
    if (!farthest || !piece || block.f.iters[*farthest].kind != IterKind::reduce) return std::nullopt;
    const std::int64_t length = std::abs(*access.strides[*piece]) * access.buffer->dtype.bytes();
    const auto loop = driving_loop(context.schedule, ref, *farthest);
    const std::int64_t* steps = loop ? as_int(context.schedule.node(*loop).extent) : nullptr;
    if (!steps || *steps < least_parts || length <= device.caches.front().line_bytes || length > longest_piece)
      return std::nullopt;
    return Cut{*loop, 1};
  }
  return std::nullopt;
}

std::optional<Cut> plan_parts(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  if (context.scheduled.contains(ref.name) || !block.f.reducer || !block.f.init || block.f.predicate)
    return std::nullopt;
  if (!folds_in_any_order(*block.f.reducer)) return std::nullopt;
  const std::optional<ReductionShape> shape = reduction_shape(block);
  const std::int64_t parts =
      std::max(parts_for_threads(context, block, shape), parts_for_accuracy(context, block, shape));
  double results = 0;
  for (const Region& written : block.f.writes) results = std::max(results, estimated_elements(written.buffer));
  const auto costs_little = [&](std::int64_t count) {
    return results * static_cast<double>(count) <= most_results * instance_count(block);
  };
  if (const auto in_order = cut_in_order(context, ref, shape);
      in_order && costs_little(*as_int(context.schedule.node(in_order->loop).extent)))
    return in_order;
  if (parts < least_parts || !costs_little(parts)) return std::nullopt;
  return shape && shape->loads > 1 ? plan_product_cut(context, ref, *shape, parts)
                                   : plan_cut(context, ref, shape, parts);
}

}  // namespace

BlockRef make_parts(RuleContext& context, const BlockRef& ref, const LoopRef& part) {
  Schedule& schedule = context.schedule;
  std::vector<LoopRef> order = own_loops(schedule, ref);
  std::erase(order, part);
  order.insert(order.begin(), part);
  reorder(schedule, order);
  const BlockRef partial = partial_results(schedule, ref, part);
  add_up(context, ref);
  return partial;
}

std::vector<BlockRef> share_alike(RuleContext& context, const std::vector<BlockRef>& sums) {
  Schedule& schedule = context.schedule;
  const std::optional<Cut> plan = plan_parts(context, sums.front());
  std::vector<BlockRef> partial;
  if (!plan) return partial;
  const std::vector<LoopRef> own = own_loops(schedule, sums.front());
  const auto place = std::find(own.begin(), own.end(), plan->loop) - own.begin();
  for (const BlockRef& sum : sums)
    partial.push_back(cut(context, sum, {own_loops(schedule, sum)[static_cast<size_t>(place)], plan->length}));
  return partial;
}

void share_reductions(RuleContext& context) {
  for (const BlockRef& ref : context.schedule.blocks()) {
    const auto plan = plan_parts(context, ref);
    if (!plan) continue;
    attempt(context, fmt::format("cut {} into parts of {}", ref.name, plan->length), [&] { cut(context, ref, *plan); });
  }
}

}  // namespace lathe
