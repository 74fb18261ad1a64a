#include "schedule/auto/vectorize_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/error.h"
#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/pair_rows.h"
#include "schedule/auto/ragged.h"
#include "schedule/auto/reduction_loops.h"
#include "schedule/auto/unfold_steps.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/vectorize_tuples.h"
#include "schedule/primitives/compute_at.h"
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

/// Vectors of a chain that a minimum or maximum of floats takes at once, the first of these that divides its steps:
/// each is two instructions then, or three in the place of five (emission joins them), and the chain waits once
/// (measured on Zen 4: 100x1024 0.63 of the time, 1595x1728 0.71; with AVX2 maxima of 1000x1000 0.71).
constexpr std::array<std::int64_t, 3> extremes_together = {4, 3, 2};

/// Elements by steps from which on folding vectors of them at the end is worth it, and the lanes of these: chains
/// that hide the latency of an addition. More gain nothing where elements come one by one, and take as long where few
/// are there (on Cascade Lake the mean of 2 elements in rows of a symbolic length took 40 ns in 16 lanes).
constexpr std::int64_t least_gathered = 32, lanes_gathered = 4;

/// Bytes of a row from which on it is a stream of its own where a device reads several faster than one, which then are
/// read side by side, and of each a pair of lines at a time (measured on Zen 5, sums of 16 MB: in two chains of one row
/// 0.92 of the time of four, as in two of each of two rows; of rows of 4 KB four chains of one are as good).
constexpr double least_stream_bytes = 64 << 10;

bool folds(const Reducer& reducer) {
  const auto op = simple_op(reducer);
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

std::int64_t lanes_along(const Block& block, const LoopRef& loop, const RuleContext& context) {
  std::int64_t lanes = vector_lanes(block, context.device);
  if (const auto extent = greatest_extent(context.schedule.node(loop).extent, context.schedule.func())) {
    while (lanes > 1 && lanes / 2 >= *extent) lanes /= 2;
  }
  return lanes;
}

std::int64_t chains_along(const Block& block, std::int64_t lanes, const LoopRef& loop, const RuleContext& context) {
  const bool ordered = is_float_extreme(block);
  if (body_cost(block) >= costly_update) return 1;
  const Func& func = context.schedule.func();
  const std::int64_t steps = extent_estimate(context.schedule.node(loop).extent, func->facts) / lanes;
  std::int64_t vectors = ordered && steps < long_row ? ordered_chains : chains;
  if (const auto extent = greatest_extent(context.schedule.node(loop).extent, func)) {
    while (vectors > 1 && lanes * vectors * least_iterations > *extent) vectors /= 2;
  }
  return vectors;
}

/// The one array that is reduced, where that is all and comes from beyond a core's own caches.
std::optional<Buffer> streamed_array(const RuleContext& context, const Block& block) {
  if (body_cost(block) >= costly_update) return std::nullopt;
  std::optional<Buffer> walked;
  for (const Access& access : block_accesses(block)) {
    if (access.buffer == block.f.writes[0].buffer) continue;
    if (walked || access.masked) return std::nullopt;
    walked = access.buffer;
  }
  const auto own = static_cast<double>(own_cache_bytes(context.device));
  const bool far =
      walked &&
      static_cast<double>((*walked)->dtype.bytes()) * estimated_elements(*walked, context.schedule.func()->facts) > own;
  return far ? walked : std::nullopt;
}

/// Are the rows of that array a stream each, of which the device reads several faster than one?
bool streams(const RuleContext& context, const OwnLoop& found, const Buffer& walked) {
  const double row = static_cast<double>(walked->dtype.bytes()) *
                     static_cast<double>(extent_estimate(context.schedule.node(found.loop).extent));
  return context.device.read_streams > 1 && row >= least_stream_bytes;
}

/// Lanes in which the array is read fastest: those of halves where a register is a line (measured on Zen 4, sums of 16
/// MB from the third cache 0.9 of the time, of 64 MB 0.96, of 640 KB to 2.5 MB as long).
std::int64_t streamed_lanes(const RuleContext& context, const Buffer& walked, std::int64_t lanes) {
  const bool whole = lanes * walked->dtype.bits == context.device.vector_bits;
  return whole && loads_lines(context.device) ? lanes / 2 : lanes;
}

/// The loop over rows of which Device::read_streams are reduced side by side, as many as leave each core some.
std::optional<LoopRef> streamed_rows(const RuleContext& context, const BlockRef& ref, const OwnLoop& found) {
  const Block& block = context.schedule.node(ref);
  const std::int64_t streams = context.device.read_streams;
  for (size_t i = found.own.size(); i-- > 0;) {
    const For& loop = context.schedule.node(found.own[i]);
    const std::int64_t* extent = as_int(loop.extent);
    if (extent && *extent % streams == 0 && *extent / streams >= context.device.cores &&
        drives(block, IterKind::space, loop) && !drives(block, IterKind::reduce, loop))
      return found.own[i];
  }
  return std::nullopt;
}

/// An element-wise block that `reduction` and others behind it read, and that costs too much to be computed for each:
/// its loop may do the reduction's work on the way, so that what it computes is reduced while it is in a register. Not
/// one of which a product reads the same for each of its results.
std::optional<BlockRef> computed_on_the_way(const RuleContext& context, const BlockRef& reduction) {
  const Schedule& schedule = context.schedule;
  const std::vector<Fact>& facts = schedule.func()->facts;
  for (const BlockRef& producer : schedule.producers(reduction)) {
    const Block& block = schedule.node(producer);
    if (context.scheduled.contains(producer.name) || block.f.reducer || block.f.predicate) continue;
    if (has_blocks(block) || body_cost(block) < costly_body || joined_axis(block)) continue;
    if (instance_count(schedule.node(reduction), facts) > instance_count(block, facts)) continue;
    if (schedule.consumers(producer).size() > 1) return producer;
  }
  return std::nullopt;
}

/// Does a loop over results lie within an unrolled one? An allocation stays outside of that, so that the loop indexes
/// it, which no register is.
bool is_indexed_in_unrolled(const Schedule& schedule, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  bool unrolled = false;
  for (const LoopRef& loop : schedule.loops(ref)) {
    const For& node = schedule.node(loop);
    if (unrolled && node.for_kind == ForKind::serial && drives(block, IterKind::space, node)) return true;
    unrolled |= node.for_kind == ForKind::unrolled;
  }
  return false;
}

/// Where elements are folded that lie by steps too wide for vectors or not known: the longest reduce iter. Elements are
/// fetched one by one as before, but their additions do not wait for each other.
std::optional<size_t> gathered_axis(const Block& block, const ReductionShape& shape, const std::vector<Fact>& facts) {
  std::optional<size_t> best;
  std::int64_t longest = least_gathered - 1;
  for (const size_t i : shape.reduce) {
    const std::int64_t extent = extent_estimate(block.f.iters[i].domain.extent, facts);
    // Each of several operands is fetched under a mask, lane by lane, where the last elements are not known.
    if (extent <= longest || (shape.loads > 1 && !as_int(block.f.iters[i].domain.extent))) continue;
    best = i;
    longest = extent;
  }
  return best;
}

/// Reduces rows side by side, each in vectors along it.
void reduce_streams(RuleContext& context, const BlockRef& ref, const OwnLoop& found, const LoopRef& rows,
                    std::int64_t vectors, std::int64_t lanes) {
  Schedule& schedule = context.schedule;
  const auto [groups, row] = split(schedule, rows, context.device.read_streams);
  const auto [steps, within] = split(schedule, found.loop, lanes * vectors);
  std::vector<LoopRef> order;
  for (const LoopRef& loop : found.own) {
    if (!(loop == found.loop)) order.push_back(loop == rows ? groups : loop);
  }
  order.insert(order.end(), {steps, row, within});
  reorder(schedule, order);
  const BlockRef partial = rfactor(schedule, ref, within);
  set_space(schedule, partial, space::registers);
  unroll(schedule, row);
  vectorize_copies(schedule, schedule.loops(partial).back(), vectors, lanes);
  fold_lanes(schedule, ref, lanes);
  unroll(schedule, own_loops(schedule, ref).back());
  context.scheduled.insert(partial.name);
  context.scheduled.insert(ref.name);
}

/// Does emission make less of several minima or maxima than of each by itself (float_extremes.cpp)?
bool joins_extremes(const Device& device, const Block& block) {
  if (!is_float_extreme(block)) return false;
  return device.mask_registers > 0 || (device.has_feature("avx") && simple_op(*block.f.reducer) == BinaryOp::max);
}

/// Has each iteration of the loop over steps take several of them, where they are of minima or maxima.
void take_extremes_together(RuleContext& context, const BlockRef& ref, const LoopRef& steps) {
  Schedule& schedule = context.schedule;
  const std::int64_t* extent = as_int(schedule.node(steps).extent);
  if (!extent || !joins_extremes(context.device, schedule.node(ref))) return;
  for (const std::int64_t together : extremes_together) {
    if (*extent % together == 0) return unroll(schedule, split(schedule, steps, together).second);
  }
}

}  // namespace

void vectorize_reductions(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || !block.f.reducer || !block.f.init) continue;
    if (block.f.reducer->lhs.size() > 1 || !folds(*block.f.reducer)) {
      vectorize_tuples(context, ref);
      continue;
    }
    const std::optional<ReductionShape> shape = reduction_shape(block);
    if (!shape) {
      unfold_steps(context, ref);
      continue;
    }
    const std::vector<Fact>& facts = schedule.func()->facts;
    std::optional<size_t> axis = shape->vector_reduce;
    if (!axis && shape->vector_space) continue;
    if (!axis) axis = near_axis(block, facts);
    if (!axis) axis = ended_by_data(block);
    const bool near = axis.has_value();
    if (!axis) axis = gathered_axis(block, *shape, facts);
    if (!axis) {
      unfold_steps(context, ref);
      continue;
    }
    const std::optional<OwnLoop> found = own_loop_of(schedule, ref, *axis);
    if (!found) continue;
    const auto most = greatest_extent(schedule.node(found->loop).extent, schedule.func());
    const std::int64_t vector = lanes_along(block, found->loop, context);
    const auto lanes_beside = [&](double cost) {
      if (!near) return std::min(vector, lanes_gathered);
      const std::int64_t together = function_lanes(context.device, cost, vector, most);
      // The end of a row has a body of its own, which is long to compile.
      return most && *most % vector == 0 && *most % together != 0 ? vector : together;
    };
    const std::optional<Buffer> streamed = shape->vector_reduce ? streamed_array(context, block) : std::nullopt;
    const std::int64_t whole = lanes_beside(body_cost(block) - accumulation_cost),
                       lanes = streamed && !is_float_extreme(block) ? streamed_lanes(context, *streamed, whole) : whole;
    // As many partial sums as in whole vectors, each of which adds up no more, and half of them for two rows at once.
    std::int64_t vectors = chains_along(block, whole, found->loop, context) * (whole / lanes);
    if (lanes < 2) continue;
    if (goes_in_pairs(context, ref)) vectors = std::max<std::int64_t>(1, vectors / 2);
    const auto reduce = [&](std::int64_t vectors, std::int64_t lanes, const std::optional<BlockRef>& on_the_way) {
      make_innermost(schedule, ref, *found);
      const auto [steps, within] = split(schedule, found->loop, lanes * vectors);
      const BlockRef partial = rfactor(schedule, ref, within);
      if (!is_indexed_in_unrolled(schedule, partial)) set_space(schedule, partial, space::registers);
      const std::vector<LoopRef> loops = schedule.loops(partial);
      if (!on_the_way) take_extremes_together(context, partial, loops[loops.size() - 2]);
      vectorize_copies(schedule, loops.back(), vectors, lanes);
      fold_lanes(schedule, ref, lanes);
      if (on_the_way) {
        compute_at(schedule, *on_the_way, steps);
        // Of axes that were joined a step crosses rows, for which all of them would be computed.
        if (instances_within(schedule, *on_the_way) > lanes)
          throw Refusal("vectorize_reductions", 1, "more is computed in a step than it reduces");
        LoopRef row = schedule.loops(*on_the_way).back();
        // Of a vector that is stored in several parts the reduction's loads would wait for each to reach memory.
        if (!is_int(schedule.node(row).extent, lanes)) row = split(schedule, row, lanes).second;
        vectorize(schedule, row);
        context.scheduled.insert(on_the_way->name);
      }
      context.scheduled.insert(partial.name);
      context.scheduled.insert(ref.name);
    };
    const std::optional<BlockRef> producer = computed_on_the_way(context, ref);
    if (producer) {
      const std::int64_t together = lanes_beside(body_cost(schedule.node(*producer)));
      if (attempt(context,
                  fmt::format("reduce {} in {} lanes while {} is computed", ref.name, together, producer->name),
                  [&] { reduce(1, together, producer); }))
        continue;
    }
    if (streamed && streams(context, *found, *streamed)) {
      const std::int64_t count = context.device.read_streams, each = std::max<std::int64_t>(1, vectors / count);
      const auto rows = streamed_rows(context, ref, *found);
      if (rows && attempt(context,
                          fmt::format("reduce {} rows of {} side by side in {} vectors of {} lanes each", count,
                                      ref.name, each, lanes),
                          [&] { reduce_streams(context, ref, *found, *rows, each, lanes); }))
        continue;
      if (!is_float_extreme(block)) vectors = each;
    }
    attempt(context, fmt::format("reduce {} in {} vectors of {} lanes", ref.name, vectors, lanes),
            [&] { reduce(vectors, lanes, std::nullopt); });
  }
}

}  // namespace lathe
