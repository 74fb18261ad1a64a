#include "schedule/auto/single_pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/mean_squares.h"
#include "schedule/primitives/part_squares.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/primitives/walk_squares.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Terms of a block: rows that stream side by side, and vectors of a row as far as registers hold them beside the
/// pair's own.
constexpr std::int64_t least_block = 4, most_rows = 8, most_vectors = 16;
/// Vectors of a row that have pairs of their own: chains of additions that overlap.
constexpr std::int64_t most_chains = 2;
/// Terms of a row from which on bringing its lanes together costs less than a second walk in the first cache. Measured
/// on Zen 4: mean and variance of 512x4096 0.81 of the time, 300x32768 0.75, one row of 64 MB 0.46, the first axis of
/// 4096x1024 0.62, of 4096x4096 0.45. Where registers hold half as many, merging costs twice as much, and only rows
/// from memory gain (with AVX2 512x4096 1.12, 300x32768 0.84; columns 0.6 to 0.95).
constexpr std::int64_t least_row = 2048;
/// Tasks a core, from which on results are shared out evenly; the blocks of a part of a reduction that is cut for more
/// of them at the least, and its terms over all columns; and the blocks that one pair takes up at the most, as rounding
/// errors of a running sum grow with it.
constexpr std::int64_t tasks_a_core = 4, least_blocks = 8, least_part = 32'768, most_blocks = 512;
/// So many times as many parts as are wanted, if then all are alike.
constexpr std::int64_t most_more_parts = 4;

struct Plan {
  BlockRef sum, squares;
  MeanSquares pair;
  size_t vectors = 0;          ///< iter that vectors walk
  std::vector<size_t> reduce;  ///< iters of more than one element, those that walk memory farthest first
  std::int64_t lanes = 1, chains = 1, block = 1, parts = 1;
  bool down_columns = false;
  std::int64_t columns = 0;  ///< of a block of them; 0 where all are one
};

class Walk {
 public:
  Walk(RuleContext& context, const Plan& plan) : context_(context), schedule_(context.schedule), plan_(plan) {}

  void run() {
    plan_.down_columns ? lay_columns() : lay_row();
    const std::vector<BlockRef> made = walk_squares(schedule_, sum_, squares_, *within_);
    const BlockRef &sum = made[0], &squares = made[1], &merged = made[2];
    const std::vector<LoopRef> loops = schedule_.loops(merged);
    LoopRef around = plan_.down_columns ? loops.back() : loops[loops.size() - 2], lanes = loops.back();
    if (plan_.down_columns) {
      if (plan_.columns > 0) lanes = block_columns(merged);
      std::tie(around, lanes) = split(schedule_, lanes, plan_.lanes);
    }
    for (const BlockRef& part : {squares, sum}) {
      compute_at(schedule_, part, around);
      set_space(schedule_, part, space::registers);
    }
    for (const BlockRef& part : {sum, squares}) take_in_registers(part);
    take_in_vectors(lanes);
    for (const BlockRef& ref : made) context_.scheduled.insert(ref.name);
    context_.note(fmt::format("walk once through what {} and {} read: {} terms of {} lanes at a time{}", plan_.sum.name,
                              plan_.squares.name, plan_.block, plan_.lanes,
                              plan_.parts > 1 ? fmt::format(", in {} parts", plan_.parts) : ""));
  }

 private:
  LoopRef loop(const BlockRef& ref, size_t iter) const { return *driving_loop(schedule_, ref, iter); }

  /// The loops around the results, but for that of the vectors.
  std::vector<LoopRef> results() const {
    std::vector<LoopRef> found;
    for (const LoopRef& loop : own_loops(schedule_, plan_.sum)) {
      const For& node = schedule_.node(loop);
      const bool lanes =
          plan_.down_columns && uses_var(schedule_.node(plan_.sum).f.bindings[plan_.vectors], node.variable.get());
      if (drives(schedule_.node(plan_.sum), IterKind::space, node) && !lanes) found.push_back(loop);
    }
    return found;
  }

  /// The loops along the reduction, outermost first, that over parts before them if there is one.
  std::vector<LoopRef> cut_reduction(std::optional<LoopRef>& part) {
    std::vector<LoopRef> loops;
    for (const size_t iter : plan_.reduce) loops.push_back(loop(plan_.sum, iter));
    if (plan_.parts > 1) {
      const std::int64_t extent = *as_int(schedule_.node(loops.front()).extent);
      if (extent == plan_.parts) {
        part = loops.front();
        loops.erase(loops.begin());
      } else {
        std::tie(part, loops.front()) = split(schedule_, loops.front(), extent / plan_.parts);
      }
    }
    return loops;
  }

  void lay_columns() {
    std::optional<LoopRef> part;
    std::vector<LoopRef> order = results(), along = cut_reduction(part);
    if (part) order.push_back(*part);
    const auto [blocks, within] = split(schedule_, along.back(), plan_.block);
    along.back() = blocks;
    order.insert(order.end(), along.begin(), along.end());
    order.push_back(within);
    order.push_back(loop(plan_.sum, plan_.vectors));
    reorder(schedule_, order);
    within_ = within;
    make_parts(part ? std::vector{*part} : std::vector<LoopRef>{}, true);
  }

  void lay_row() {
    std::optional<LoopRef> part;
    std::vector<LoopRef> order = results(), along = cut_reduction(part);
    if (part) order.push_back(*part);
    const auto [vectors, lane] = split(schedule_, along.back(), plan_.chains * plan_.lanes);
    const auto [blocks, within] = split(schedule_, vectors, plan_.block);
    along.back() = blocks;
    order.insert(order.end(), along.begin(), along.end());
    order.push_back(within);
    order.push_back(lane);
    reorder(schedule_, order);
    within_ = within;
    make_parts(part ? std::vector{*part, lane} : std::vector{lane}, false);
  }

  /// Blocks of columns around all that is walked; returns the loop within one.
  LoopRef block_columns(const BlockRef& merged) {
    std::vector<LoopRef> order = own_loops(schedule_, merged);
    const auto [blocks, column] = split(schedule_, order.back(), plan_.columns);
    order.back() = column;
    const auto ordered = std::find_if(order.begin(), order.end(), [&](const LoopRef& loop) {
      return drives(schedule_.node(merged), IterKind::ordered, schedule_.node(loop));
    });
    order.insert(ordered, blocks);
    reorder(schedule_, order);
    return column;
  }

  /// Makes a pair for each part, and finds the loop over a block of terms again.
  void make_parts(const std::vector<LoopRef>& loops, bool first) {
    sum_ = plan_.sum;
    squares_ = plan_.squares;
    if (loops.empty()) return;
    const std::vector<BlockRef> parts = part_squares(schedule_, sum_, squares_, loops);
    sum_ = parts[0];
    squares_ = parts[1];
    const std::vector<LoopRef> around = schedule_.loops(sum_);
    within_ = around[around.size() - 2];
    if (!first) return;
    for (const BlockRef& ref : parts) {
      const Buffer buffer = schedule_.node(ref).f.writes[0].buffer;
      transform_layout(schedule_, ref, buffer->name, moved_first(buffer->rank(), buffer->rank() - 1));
    }
  }

  /// A block's sum, or its squares, term by term in registers.
  void take_in_registers(const BlockRef& ref) {
    std::optional<LoopRef> terms, lanes;
    for (const LoopRef& loop : own_loops(schedule_, ref)) {
      const For& node = schedule_.node(loop);
      (drives(schedule_.node(ref), IterKind::reduce, node) ? terms : lanes) = loop;
    }
    reorder(schedule_, {*terms, *lanes});
    decompose_reduction(schedule_, ref, *terms);
    unroll(schedule_, *terms);
    take_in_vectors(*lanes);
    take_in_vectors(schedule_.loops({ref.name + "_init"}).back());
  }

  void take_in_vectors(const LoopRef& loop) {
    if (plan_.chains == 1) return vectorize(schedule_, loop);
    const auto [vectors, lanes] = split(schedule_, loop, plan_.lanes);
    unroll(schedule_, vectors);
    vectorize(schedule_, lanes);
  }

  RuleContext& context_;
  Schedule& schedule_;
  const Plan& plan_;
  BlockRef sum_, squares_;
  std::optional<LoopRef> within_;
};

/// Those that read what the block writes, or what an element-wise block makes of it.
std::vector<BlockRef> readers_of(const Schedule& schedule, const BlockRef& ref) {
  std::vector<BlockRef> found;
  for (const BlockRef& reader : schedule.consumers(ref)) {
    found.push_back(reader);
    if (!only_space(schedule.node(reader))) continue;
    for (const BlockRef& further : schedule.consumers(reader)) found.push_back(further);
  }
  return found;
}

/// Does another block read the terms, so that a row of them is to be near anyway?
bool read_again(const Schedule& schedule, const Plan& plan) {
  const Block &sum = schedule.node(plan.sum), &squares = schedule.node(plan.squares);
  const std::vector<BlockRef> blocks = schedule.blocks();
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockRef& ref) {
    const Block& block = schedule.node(ref);
    if (&block == &sum || &block == &squares || has_blocks(block)) return false;
    return std::any_of(sum.f.reads.begin(), sum.f.reads.end(), [&](const Region& region) {
      return region.buffer != plan.pair.total.buffer && reads(block, region.buffer);
    });
  });
}

class Planner {
 public:
  Planner(const RuleContext& context, const BlockRef& sum, const BlockRef& squares)
      : context_(context), block_(context.schedule.node(sum)) {
    plan_.sum = sum;
    plan_.squares = squares;
  }

  std::optional<Plan> run() {
    const Schedule& schedule = context_.schedule;
    if (match_mean_squares(schedule, plan_.sum, plan_.squares, plan_.pair)) return std::nullopt;
    if (!why_not_alone(plan_.pair.sum, plan_.pair.own).empty()) return std::nullopt;
    const std::optional<ReductionShape> shape = reduction_shape(block_);
    const std::vector<CacheLevel>& caches = context_.device.caches;
    if (!shape || caches.empty() || !order_reduction(*shape)) return std::nullopt;
    bytes_ = bytes_of_buffers({&block_}, schedule.func()->facts);
    if (bytes_ <= static_cast<double>(caches.front().bytes)) return std::nullopt;
    plan_.lanes = vector_lanes(block_, context_.device);
    plan_.down_columns = shape->vector_space && shape->column_run == 0;
    const bool fits = plan_.down_columns ? plan_columns(*shape->vector_space) : plan_row(*shape);
    return fits ? std::optional(std::move(plan_)) : std::nullopt;
  }

 private:
  std::int64_t extent(size_t iter) const {
    const std::int64_t* found = as_int(block_.f.iters[iter].domain.extent);
    return found ? *found : 0;
  }

  /// The reduction's iters as the array read last walks them.
  bool order_reduction(const ReductionShape& shape) {
    std::vector<Access> loads = block_accesses(block_);
    std::erase_if(loads, [&](const Access& access) { return access.buffer == plan_.pair.total.buffer; });
    if (loads.empty()) return false;
    const Access& walk = loads.back();
    for (const size_t iter : shape.reduce) {
      if (extent(iter) == 1) continue;
      if (!walk.strides[iter] || *walk.strides[iter] == 0) return false;
      plan_.reduce.push_back(iter);
    }
    std::stable_sort(plan_.reduce.begin(), plan_.reduce.end(),
                     [&](size_t a, size_t b) { return std::abs(*walk.strides[a]) > std::abs(*walk.strides[b]); });
    return !plan_.reduce.empty();
  }

  std::int64_t other_results(std::optional<size_t> vectors) const {
    double all = 1;
    for (size_t i = 0; i < block_.f.iters.size(); ++i) {
      if (block_.f.iters[i].kind == IterKind::space && vectors != i)
        all *= static_cast<double>(extent_estimate(block_.f.iters[i].domain.extent, context_.schedule.func()->facts));
    }
    return static_cast<std::int64_t>(std::min(all, 1e9));
  }

  bool plan_columns(size_t vectors) {
    plan_.vectors = vectors;
    const std::int64_t columns = extent(vectors);
    if (columns < plan_.lanes) return false;
    const auto block = greatest_divisor(extent(plan_.reduce.back()), least_block, most_rows);
    if (!block) return false;
    plan_.block = *block;
    // Pairs of a block of columns fill half of the first cache.
    const std::int64_t fitting = context_.device.caches.front().bytes / (4 * plan_.pair.dtype().bytes());
    if (columns > 2 * fitting) plan_.columns = fitting;
    const std::int64_t column_blocks = plan_.columns > 0 ? (columns + fitting - 1) / fitting : 1;
    share(other_results(vectors) * column_blocks, columns, plan_.block);
    return true;
  }

  bool plan_row(const ReductionShape& shape) {
    if (!shape.vector_reduce || shape.vector_reduce != plan_.reduce.back()) return false;
    const std::int64_t row = extent(plan_.reduce.back()),
                       most = std::min<std::int64_t>(most_vectors, context_.device.vector_registers / 2);
    if (row % plan_.lanes != 0 || plan_.pair.count < least_row) return false;
    if (most < most_vectors && !exceeds_caches(context_.device, bytes_)) return false;
    const double bytes = static_cast<double>(plan_.pair.count * plan_.pair.dtype().bytes());
    if (bytes <= static_cast<double>(own_cache_bytes(context_.device)) && read_again(context_.schedule, plan_))
      return false;
    const std::int64_t vectors = row / plan_.lanes;
    for (plan_.chains = most_chains; plan_.chains > 0; --plan_.chains) {
      if (vectors % plan_.chains != 0) continue;
      const auto block = greatest_divisor(vectors / plan_.chains, least_block, most / plan_.chains);
      if (block) plan_.block = *block;
      if (block) break;
    }
    if (plan_.chains == 0) return false;
    share(other_results(std::nullopt), 1, plan_.block * plan_.chains * plan_.lanes);
    return true;
  }

  /// Parts of the outermost loop along the reduction: for threads where there are few tasks, and short enough.
  void share(std::int64_t tasks, std::int64_t columns, std::int64_t block_terms) {
    const std::int64_t blocks = plan_.pair.count / block_terms, enough = tasks_a_core * context_.device.cores;
    std::int64_t wanted = (blocks + most_blocks - 1) / most_blocks;
    if (context_.device.cores > 1 && tasks < enough) {
      const std::int64_t most = std::min(blocks / least_blocks, plan_.pair.count * columns / least_part);
      wanted = std::max(wanted, std::min((enough + tasks - 1) / tasks, most));
    }
    const std::int64_t steps = extent(plan_.reduce.front()) / (plan_.reduce.size() > 1 ? 1 : block_terms);
    for (std::int64_t parts = wanted; parts <= std::min(most_more_parts * wanted, steps); ++parts) {
      if (steps % parts != 0) continue;
      plan_.parts = parts;
      return;
    }
    plan_.parts = greatest_divisor(steps, 1, wanted).value_or(1);
  }

  const RuleContext& context_;
  const Block& block_;
  Plan plan_;
  double bytes_ = 0;
};

}  // namespace

void single_pass(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (schedule.find(ref).empty() || context.scheduled.contains(ref.name)) continue;
    const Block& block = schedule.node(ref);
    if (!block.f.reducer || simple_op(*block.f.reducer) != BinaryOp::add) continue;
    for (const BlockRef& reader : readers_of(schedule, ref)) {
      if (!schedule.node(reader).f.reducer || context.scheduled.contains(reader.name)) continue;
      const std::optional<Plan> plan = Planner(context, ref, reader).run();
      if (!plan) continue;
      if (attempt(context, fmt::format("walk once for {} and {}", ref.name, reader.name),
                  [&] { Walk(context, *plan).run(); }))
        break;
    }
  }
}

}  // namespace lathe
