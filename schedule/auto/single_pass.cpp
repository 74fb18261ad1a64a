#include "schedule/auto/single_pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/share_reductions.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/mean_squares.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/shift_squares.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Terms for each of the sample, whose share bounds what accuracy the shift can cost; vectors of the sample, and of a
/// row that pays for it, also where the row is read again by what the mean is for (measured on Zen 4: mean and variance
/// of 512x4096 0.62 of the time, of 512x768 0.83; layer norm of 128x4096 0.9, of 512x768 0.94, which takes a
/// millisecond longer to compile, of 64x256 1.1).
constexpr std::int64_t sample_share = 64, least_sampled = 2, least_vectors = 32, least_read_again = 64;
/// Rows that stream side by side down columns.
constexpr std::int64_t least_rows = 2, most_rows = 8;
/// Results of tasks of their own from which on threads have enough; else the rows are cut into parts of so many terms
/// at the least, and no more than so many. Rows that one sum takes up at the most, as rounding errors grow with them.
constexpr double enough_tasks = 8;
constexpr std::int64_t least_part = std::int64_t{1} << 17, most_parts = 64, most_part_rows = 4096, least_part_rows = 32;
/// So many times as many parts as are wanted, if then all are alike.
constexpr std::int64_t most_more_parts = 4;

struct Plan {
  BlockRef sum, squares;
  std::int64_t terms = 0;         ///< of the sample
  std::optional<size_t> columns;  ///< iter that vectors walk, where they do not go along the reduction
  std::vector<size_t> reduce;     ///< iters of more than one element, those that walk memory farthest first
  std::int64_t lanes = 1, rows = 1, parts = 1;
  std::int64_t block = 0;  ///< columns of a block; 0 where all are one
};

class Planner {
 public:
  Planner(const RuleContext& context, const BlockRef& sum, const BlockRef& squares)
      : context_(context), block_(context.schedule.node(sum)) {
    plan_.sum = sum;
    plan_.squares = squares;
  }

  std::optional<Plan> run() {
    MeanSquares pair;
    if (match_mean_squares(context_.schedule, plan_.sum, plan_.squares, pair)) return std::nullopt;
    const std::optional<ReductionShape> shape = reduction_shape(block_);
    if (!shape) return std::nullopt;
    count_ = pair.count;
    plan_.lanes = vector_lanes(block_, context_.device);
    plan_.terms = std::max(count_ / sample_share, std::min(count_, least_sampled * plan_.lanes));
    bytes_of_term_ = pair.dtype().bytes();
    const bool fits = shape->vector_space && shape->column_run == 0 ? plan_columns(*shape) : plan_row(*shape);
    return fits ? std::optional(std::move(plan_)) : std::nullopt;
  }

 private:
  std::int64_t extent(size_t iter) const {
    const std::int64_t* found = as_int(block_.f.iters[iter].domain.extent);
    return found ? *found : 0;
  }

  bool plan_row(const ReductionShape& shape) const {
    return shape.vector_reduce && extent(*shape.vector_reduce) >= least_sampled * plan_.lanes &&
           count_ >= (is_read_again() ? least_read_again : least_vectors) * plan_.lanes;
  }

  /// Does another block read what is summed?
  bool is_read_again() const {
    const Schedule& schedule = context_.schedule;
    const std::vector<BlockRef> blocks = schedule.blocks();
    return std::any_of(blocks.begin(), blocks.end(), [&](const BlockRef& ref) {
      const Block& block = schedule.node(ref);
      if (ref == plan_.sum || ref == plan_.squares || has_blocks(block)) return false;
      return std::any_of(block_.f.reads.begin(), block_.f.reads.end(), [&](const Region& region) {
        return region.buffer != block_.f.writes[0].buffer && reads(block, region.buffer);
      });
    });
  }

  bool plan_columns(const ReductionShape& shape) {
    const std::vector<CacheLevel>& caches = context_.device.caches;
    plan_.columns = shape.vector_space;
    const std::int64_t columns = extent(*plan_.columns);
    if (caches.empty() || columns < plan_.lanes || !order_reduction(shape)) return false;
    if (bytes_of_buffers({&block_}, context_.schedule.func()->facts) <= static_cast<double>(caches.front().bytes))
      return false;
    const auto rows = greatest_divisor(extent(plan_.reduce.back()), least_rows, most_rows);
    if (!rows || plan_.reduce.size() > 2) return false;
    plan_.rows = *rows;
    // Both sums of a block of columns fill half of the first cache.
    const std::int64_t fitting = caches.front().bytes / (4 * bytes_of_term_);
    if (columns > 2 * fitting) plan_.block = fitting;
    double tasks = plan_.block > 0 ? static_cast<double>((columns + fitting - 1) / fitting) : 1;
    for (const size_t iter : shape.space)
      if (iter != *plan_.columns) tasks *= static_cast<double>(extent_estimate(block_.f.iters[iter].domain.extent));
    return share(tasks, columns);
  }

  /// The reduction's iters as the array read last walks them.
  bool order_reduction(const ReductionShape& shape) {
    const Accesses accesses = block_accesses(block_);
    const auto walk = std::find_if(accesses.rbegin(), accesses.rend(),
                                   [&](const Access& access) { return access.buffer != block_.f.writes[0].buffer; });
    if (walk == accesses.rend()) return false;
    for (const size_t iter : shape.reduce) {
      if (extent(iter) == 1) continue;
      if (walk->strides[iter].value_or(0) == 0) return false;
      plan_.reduce.push_back(iter);
    }
    std::stable_sort(plan_.reduce.begin(), plan_.reduce.end(),
                     [&](size_t a, size_t b) { return std::abs(*walk->strides[a]) > std::abs(*walk->strides[b]); });
    return !plan_.reduce.empty();
  }

  /// Parts of the reduction: for threads where there are few tasks, and short enough. Of two axes the outer one's steps
  /// are the parts, where these are enough, and their sums little beside what they are of.
  bool share(double tasks, std::int64_t columns) {
    std::int64_t wanted = (count_ + most_part_rows - 1) / most_part_rows;
    if (context_.device.cores > 1 && tasks < enough_tasks)
      wanted = std::max(wanted, std::min(most_parts, count_ * columns / least_part));
    if (plan_.reduce.size() > 1) {
      plan_.parts = extent(plan_.reduce.front());
      return plan_.parts >= wanted && plan_.parts * least_part_rows <= count_;
    }
    const std::int64_t steps = count_ / plan_.rows;
    for (std::int64_t parts = wanted; parts <= std::min(most_more_parts * wanted, steps); ++parts) {
      if (steps % parts != 0) continue;
      plan_.parts = parts;
      return true;
    }
    plan_.parts = greatest_divisor(steps, 1, wanted).value_or(1);
    return true;
  }

  const RuleContext& context_;
  const Block& block_;
  Plan plan_;
  std::int64_t count_ = 0, bytes_of_term_ = 0;
};

/// Joins loops of two nests, outermost first.
void join_each(Schedule& schedule, const std::vector<LoopRef>& first, const std::vector<LoopRef>& second) {
  for (size_t i = 0; i < first.size(); ++i) join_loops(schedule, first[i], second[i]);
}

/// Lays out both sums of columns in one nest.
class Columns {
 public:
  Columns(RuleContext& context, const Plan& plan) : context_(context), schedule_(context.schedule), plan_(plan) {}

  void run(const std::vector<BlockRef>& sums) {
    const std::vector<LoopRef> first = lay_out(sums[0]), second = lay_out(sums[1]);
    join_each(schedule_, first, second);
  }

 private:
  /// The loops that both sums have around the rows that stream side by side, outermost first.
  std::vector<LoopRef> lay_out(const BlockRef& ref) {
    const size_t column = space_iter(ref, *plan_.columns);
    LoopRef steps = *driving_loop(schedule_, ref, plan_.reduce.back());
    const std::optional<LoopRef> part = take_part(ref, steps);
    const BlockRef sums = part ? make_parts(context_, ref, *part) : ref;
    const auto [several, rows] = split(schedule_, steps, plan_.rows);
    std::vector<LoopRef> order{several, rows};
    for (const LoopRef& loop : own_loops(schedule_, sums)) {
      if (!(loop == several) && !(loop == rows)) order.push_back(loop);
    }
    reorder(schedule_, order);
    // A few rows are added up in registers, and the sums of all take up what comes out.
    const BlockRef partial = rfactor(schedule_, sums, several);
    context_.scheduled.insert(sums.name);
    context_.scheduled.insert(partial.name);
    LoopRef within = *driving_loop(schedule_, sums, column);
    const LoopRef outer = *driving_loop(schedule_, sums, schedule_.node(sums).f.iters.size() - 1);
    order.clear();
    for (const LoopRef& loop : own_loops(schedule_, sums)) {
      if (!(loop == within) && !(loop == outer)) order.push_back(loop);
    }
    if (plan_.block > 0) {
      const auto [blocks, inner] = split(schedule_, within, plan_.block);
      order.push_back(blocks);
      within = inner;
    }
    const auto [vectors, lane] = split(schedule_, within, plan_.lanes);
    order.insert(order.end(), {outer, vectors});
    std::vector<LoopRef> all = order;
    all.push_back(lane);
    reorder(schedule_, all);
    compute_at(schedule_, partial, vectors);
    set_space(schedule_, partial, space::registers);
    take_in_registers(partial);
    const BlockRef start = decompose_reduction(schedule_, sums, outer);
    vectorize(schedule_, lane);
    vectorize(schedule_, schedule_.loops(start).back());
    return order;
  }

  /// The loop over parts, where there are to be some: an outer one of the reduction, or what is split off the one over
  /// rows.
  std::optional<LoopRef> take_part(const BlockRef& ref, LoopRef& rows) {
    if (plan_.reduce.size() > 1) return driving_loop(schedule_, ref, plan_.reduce.front());
    if (plan_.parts == 1) return std::nullopt;
    const auto [part, rest] = split(schedule_, rows, *as_int(schedule_.node(rows).extent) / plan_.parts);
    rows = rest;
    return part;
  }

  /// The place of an iter among those of space, which are the first of partial results.
  size_t space_iter(const BlockRef& ref, size_t iter) const {
    const std::vector<Iter>& iters = schedule_.node(ref).f.iters;
    return static_cast<size_t>(std::count_if(iters.begin(), iters.begin() + static_cast<std::ptrdiff_t>(iter),
                                             [](const Iter& other) { return other.kind == IterKind::space; }));
  }

  /// The sums of a few rows, one vector of columns.
  void take_in_registers(const BlockRef& ref) {
    std::optional<LoopRef> rows, lanes;
    for (const LoopRef& loop : own_loops(schedule_, ref)) {
      const For& node = schedule_.node(loop);
      if (drives(schedule_.node(ref), IterKind::reduce, node))
        rows = loop;
      else if (!is_int(node.extent, 1))
        lanes = loop;
    }
    reorder(schedule_, {*rows, *lanes});
    const BlockRef start = decompose_reduction(schedule_, ref, *rows);
    unroll(schedule_, *rows);
    vectorize(schedule_, *lanes);
    vectorize(schedule_, schedule_.loops(start).back());
  }

  RuleContext& context_;
  Schedule& schedule_;
  const Plan& plan_;
};

/// Is the block to stay what it is?
bool stays(const Block& block) {
  return is_sealed(block) || fusion_wish(block) == FusionWish::apart;
}

/// Those that read what the block writes, or what an element-wise block makes of it, each once.
std::vector<BlockRef> readers_of(const Schedule& schedule, const BlockRef& ref) {
  std::vector<BlockRef> found;
  const auto add = [&](const BlockRef& reader) {
    if (std::find(found.begin(), found.end(), reader) == found.end()) found.push_back(reader);
  };
  for (const BlockRef& reader : schedule.consumers(ref)) {
    const Block& block = schedule.node(reader);
    add(reader);
    if (!only_space(block) || stays(block)) continue;
    for (const BlockRef& further : schedule.consumers(reader)) add(further);
  }
  return found;
}

/// Puts what mends a result into the blocks that make something of it, once a row as it does: fuse_rows finds rows by
/// what is done along them.
void mend_where_read(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  if (schedule.find(ref).empty()) return;
  const std::vector<BlockRef> readers = schedule.consumers(ref);
  const double results = instance_count(schedule.node(ref));
  const bool alike = !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader) {
    return only_space(schedule.node(reader)) && instance_count(schedule.node(reader)) == results;
  });
  if (alike && is_allocated(schedule.func(), schedule.node(ref).f.writes[0].buffer))
    attempt(context, fmt::format("mend {} where it is read", ref.name), [&] { compute_inline(schedule, ref); });
}

/// Gives results that leave the kernel, a mean beside a variance, one nest, under which fuse_rows can put what both
/// need.
void join_results(RuleContext& context, const std::vector<BlockRef>& sums) {
  Schedule& schedule = context.schedule;
  std::vector<std::vector<LoopRef>> nests;
  for (const BlockRef& ref : schedule.blocks()) {
    const bool reads = std::any_of(sums.begin(), sums.end(), [&](const BlockRef& sum) {
      const std::vector<BlockRef> readers = schedule.consumers(sum);
      return std::find(readers.begin(), readers.end(), ref) != readers.end();
    });
    if (reads && !is_allocated(schedule.func(), schedule.node(ref).f.writes[0].buffer))
      nests.push_back(own_loops(schedule, ref));
  }
  if (nests.size() != 2 || nests[0].empty() || nests[0].size() != nests[1].size()) return;
  attempt(context, "give results of a walk one nest", [&] { join_each(schedule, nests[0], nests[1]); });
}

/// The loops around a sum alone, down to those along the reduction.
std::vector<LoopRef> loops_over_results(const Schedule& schedule, const BlockRef& sum) {
  std::vector<LoopRef> loops = own_loops(schedule, sum);
  const auto along = std::find_if(loops.begin(), loops.end(), [&](const LoopRef& loop) {
    return drives(schedule.node(sum), IterKind::reduce, schedule.node(loop));
  });
  loops.erase(along, loops.end());
  return loops;
}

void walk_once(RuleContext& context, const Plan& plan) {
  const std::vector<BlockRef> sums = shift_squares(context.schedule, plan.sum, plan.squares, plan.terms);
  for (const BlockRef& result : {plan.sum, plan.squares}) mend_where_read(context, result);
  std::string how;
  if (plan.columns) {
    Columns(context, plan).run(sums);
    how = fmt::format(", {} rows at a time", plan.rows);
    if (plan.block > 0) how += fmt::format(" of {} columns", plan.block);
    if (plan.parts > 1) how += fmt::format(", in {} parts", plan.parts);
  } else {
    join_results(context, sums);
    const std::vector<BlockRef> parts = share_alike(context, sums);
    Schedule& schedule = context.schedule;
    if (!parts.empty())
      join_each(schedule, loops_over_results(schedule, parts[0]), loops_over_results(schedule, parts[1]));
  }
  context.note(
      fmt::format("shift {} and {} by the mean of {} terms{}", plan.sum.name, plan.squares.name, plan.terms, how));
}

}  // namespace

void single_pass(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (schedule.find(ref).empty() || context.scheduled.contains(ref.name)) continue;
    const Block& block = schedule.node(ref);
    if (!block.f.reducer || simple_op(*block.f.reducer) != BinaryOp::add || stays(block)) continue;
    for (const BlockRef& reader : readers_of(schedule, ref)) {
      const Block& squares = schedule.node(reader);
      if (!squares.f.reducer || context.scheduled.contains(reader.name) || stays(squares)) continue;
      const std::optional<Plan> plan = Planner(context, ref, reader).run();
      if (plan && attempt(context, fmt::format("walk once for {} and {}", ref.name, reader.name),
                          [&] { walk_once(context, *plan); }))
        break;
    }
  }
}

}  // namespace lathe
