#include "schedule/auto/group_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "schedule/auto/across_plan.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/copy_cost.h"
#include "schedule/auto/paired_tile.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/turn_squares.h"

namespace lathe {
namespace {

/// What is estimated to take longer than this part is left as it is.
constexpr double worth_grouping = 0.85;
/// Cycles of a term in scalar code, loads included: of each operand that goes a line further with every step, as many
/// again where lines come from a core's own caches, and from beyond.
constexpr double scalar_cycles = 1.5, near_line = 1, far_line = 6;
/// Cycles to begin a loop of a nest anew.
constexpr double nested_loop = 4;
/// The same besides, where the array leaves a core's own caches.
constexpr double far_copy_cycles = 1;
/// The axes, those along which the access goes furthest first.
Axes by_stride(Axes axes, const Walked& access) {
  std::stable_sort(axes.begin(), axes.end(),
                   [&](size_t a, size_t b) { return std::abs(access.strides[a]) > std::abs(access.strides[b]); });
  return axes;
}

bool is_contiguous(const Walked& access, const Axes& axes) {
  return axes.empty() || access.strides[axes.back()] == 1;
}

/// The axes as runs that lie as one.
std::vector<Axes> joined_runs(const Axes& axes, const Walked& access, const Product& product) {
  std::vector<Axes> runs;
  for (const size_t i : axes) {
    if (runs.empty() || !lies_as_one(access, {runs.back().back(), i}, product)) runs.emplace_back();
    runs.back().push_back(i);
  }
  return runs;
}

std::vector<Axes> concatenated(std::vector<Axes> a, const std::vector<Axes>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The dimensions in the order in which they lie in the array, but for the last, which vectors walk.
std::vector<Axes> in_order_of(const Walked& access, std::vector<Axes> dimensions) {
  std::stable_sort(dimensions.begin(), dimensions.end() - 1, [&](const Axes& a, const Axes& b) {
    return !a.empty() && (b.empty() || std::abs(access.strides[a.back()]) > std::abs(access.strides[b.back()]));
  });
  return dimensions;
}

/// What vectors, or the scalars beside them, want of an array besides groups that lie as one.
enum class Walk {
  vectors,  ///< that it is contiguous along the last group
  scalars,  ///< that it is contiguous along one of the groups, where it does not fit the first cache
};

/// Adds to the plan's cycles what it takes to have the array lie so.
Layout lay_out(const RuleContext& context, Grouping& plan, const Walked& access, std::vector<Axes> groups, Walk walk,
               const Product& product) {
  Layout layout;
  Axes apart;
  for (const size_t i : plan.apart) {
    if (access.strides[i] != 0) apart.push_back(i);
  }
  layout.groups = std::move(groups);
  std::int64_t elements = product.count(apart);
  bool near_steps = false;
  for (const Axes& group : layout.groups) {
    layout.copied |= !lies_as_one(access, group, product);
    near_steps |= !group.empty() && std::abs(access.strides[group.back()]) <= widest_step;
    elements *= product.count(group);
  }
  const std::int64_t bytes = elements * access.buffer->dtype.bytes();
  const std::vector<CacheLevel>& caches = context.device.caches;
  if (walk == Walk::vectors) {
    layout.copied |= !is_contiguous(access, layout.groups.back());
  } else {
    layout.copied |= !near_steps && !caches.empty() && bytes > caches.front().bytes;
  }
  if (!layout.copied) {
    for (const size_t i : apart) layout.apart.push_back({i});
    layout.dimensions = concatenated(layout.apart, layout.groups);
    return layout;
  }
  layout.apart = joined_runs(apart, access, product);
  const bool result = access.buffer == product.result.buffer;
  layout.dimensions = concatenated(layout.apart, layout.groups);
  double each = copy_cycles(access, layout.dimensions, product, result);
  if (result) {
    // What lies as one there is turned around as one.
    std::vector<Axes> as_there = in_order_of(access, layout.dimensions);
    const double together = copy_cycles(access, as_there, product, result);
    if (together < each) {
      each = together;
      layout.dimensions = std::move(as_there);
    }
  }
  const double far = bytes > own_cache_bytes(context.device) ? far_copy_cycles : 0;
  plan.cycles += static_cast<double>(elements) * (each + far);
  return layout;
}

/// For scalars, the one of fewer cycles of two ways to lie.
Layout lay_out_either(const RuleContext& context, Grouping& plan, const Walked& access, const std::vector<Axes>& one,
                      const std::vector<Axes>& other, const Product& product) {
  Grouping first = plan, second = plan;
  Layout in_first = lay_out(context, first, access, one, Walk::scalars, product),
         in_second = lay_out(context, second, access, other, Walk::scalars, product);
  const bool better = first.cycles <= second.cycles;
  plan.cycles = better ? first.cycles : second.cycles;
  return better ? in_first : in_second;
}

/// What anything is better than.
Grouping worst() {
  Grouping plan;
  plan.cycles = std::numeric_limits<double>::infinity();
  return plan;
}

void keep_better(Grouping& best, Grouping plan) {
  if (plan.cycles < best.cycles) best = std::move(plan);
}

/// Moves axes to those that stay apart but for the last ones that lie as one in the array.
void keep_run(Axes& axes, Axes& apart, const Walked& access, const Product& product) {
  size_t begin = axes.empty() ? 0 : axes.size() - 1;
  while (begin > 0 && lies_as_one(access, {axes[begin - 1], axes[begin]}, product)) --begin;
  apart.insert(apart.end(), axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(begin));
  axes.erase(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(begin));
}

/// How the axes of a product are put together.
struct Choice {
  bool swapped;       ///< vectors walk the rows
  int rows, columns;  ///< those that do not lie as one become one, or stay apart: in the result; in their operand
  bool nested;        ///< a loop for each axis that is summed, instead of one for all
};

/// The same where vectors walk the batch.
struct BatchChoice {
  bool batch, rows, columns;  ///< those that do not lie as one stay apart, instead of becoming one
  bool nested;                ///< a loop for each axis that is summed, instead of one for all
};

std::vector<Axes> summed_groups(const Axes& summed, bool nested) {
  if (!nested) return {summed};
  std::vector<Axes> groups;
  for (const size_t i : summed) groups.push_back({i});
  return groups;
}

/// The estimate of tiles for so many rows, columns and steps, worked out once for each.
class TileCosts {
 public:
  TileCosts(const RuleContext& context, const Block& block, const Product& product)
      : device_(context.device), lanes_(vector_lanes(block, context.device)), bits_(widest_bits(block)) {
    double terms = 1;
    for (const std::int64_t extent : product.extents) terms *= static_cast<double>(extent);
    least_ = terms / static_cast<double>(lanes_ * device_.fma_per_cycle);
  }

  double of(const Grouping& plan, std::int64_t inner) {
    const auto key = std::make_tuple(plan.rows, plan.columns, plan.depth);
    auto found = tiles_.find(key);
    if (found == tiles_.end()) {
      const TiledExtents extents{plan.rows, plan.columns, plan.depth};
      found = tiles_.emplace(key, choose_tile(device_, lanes_, bits_, extents)).first;
    }
    const RegisterTile& tile = found->second;
    const std::int64_t width = tile.vectors * tile.lanes;
    const std::int64_t tiles = rounded_up(plan.rows, tile.rows) / tile.rows * (rounded_up(plan.columns, width) / width);
    const std::int64_t inner_loops = plan.summed.size() > 1 ? tiles * (plan.depth / inner) : 0;
    return static_cast<double>(plan.times) * (tile.cycles + nested_loop * static_cast<double>(inner_loops));
  }
  /// Steps along the reduction in vectors, where each run of `inner` is filled up.
  double of_dots(const Grouping& plan, std::int64_t inner) const {
    const TiledExtents extents{plan.rows, plan.columns, plan.depth / inner * rounded_up(inner, lanes_)};
    return static_cast<double>(plan.times) * dot_product_cycles(device_, lanes_, bits_, extents);
  }
  /// The same where vectors walk the batch, a lane for each of so many products.
  double of_batch(const Grouping& plan, std::int64_t batch) {
    const auto key = std::make_tuple(plan.rows, plan.columns, batch, plan.depth);
    auto found = paired_.find(key);
    if (found == paired_.end()) {
      found =
          paired_.emplace(key, choose_paired_tile(device_, lanes_, bits_, {plan.rows, plan.columns, batch, plan.depth}))
              .first;
    }
    return static_cast<double>(plan.times) / static_cast<double>(batch) * found->second.cycles;
  }
  /// What no tile is faster than.
  double least() const { return least_; }

 private:
  const Device& device_;
  const std::int64_t lanes_;
  const int bits_;
  double least_ = 0;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, RegisterTile> tiles_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, PairedTile> paired_;
};

/// Where arrays lie best for the choice, if that is better than `best`: for products of matrices whose columns vectors
/// walk, or for dot products along the last of the axes that are summed. The axes of a group lie as in one or the other
/// of the two arrays that have them; which of them stay apart differs with that, and so do the tiles.
void lay_matrices(const RuleContext& context, const Product& product, const Choice& choice, bool dots, TileCosts& costs,
                  Grouping& best) {
  const bool swapped = choice.swapped;
  const Walked &across = swapped ? product.right : product.left, &along = swapped ? product.left : product.right;
  for (int order = 0; order < 8; ++order) {
    Axes rows = by_stride(swapped ? product.columns : product.rows, (order & 1) != 0 ? across : product.result),
         columns = by_stride(swapped ? product.rows : product.columns, (order & 2) != 0 ? along : product.result);
    const Axes summed = by_stride(product.summed, (order & 4) != 0 ? across : along);
    Grouping plan;
    plan.apart = by_stride(product.batch, product.result);
    if (choice.rows != 0) keep_run(rows, plan.apart, choice.rows == 1 ? product.result : across, product);
    if (choice.columns != 0) keep_run(columns, plan.apart, choice.columns == 1 ? product.result : along, product);
    if (!dots && product.count(columns) == 1) continue;  // vectors would walk nothing
    plan.joined = {rows, columns};
    plan.summed = summed_groups(summed, choice.nested);
    Layout vectors, steps;
    if (dots) {
      vectors = lay_out(context, plan, along, concatenated({columns}, plan.summed), Walk::vectors, product);
      steps = lay_out(context, plan, across, concatenated({rows}, plan.summed), Walk::vectors, product);
    } else {
      vectors = lay_out(context, plan, along, concatenated(plan.summed, {columns}), Walk::vectors, product);
      steps = lay_out_either(context, plan, across, concatenated({rows}, plan.summed),
                             concatenated(plan.summed, {rows}), product);
    }
    plan.result = lay_out(context, plan, product.result, {rows, columns}, Walk::vectors, product);
    if (plan.cycles + costs.least() >= best.cycles) continue;
    plan.left = swapped ? vectors : steps;
    plan.right = swapped ? steps : vectors;
    plan.times = product.count(plan.apart);
    plan.rows = product.count(plan.joined[0]);
    plan.columns = product.count(plan.joined[1]);
    plan.depth = product.count(product.summed);
    plan.vectors = dots ? Grouping::Vectors::summed : Grouping::Vectors::columns;
    const std::int64_t inner = product.count(plan.summed.back());
    plan.cycles += dots ? costs.of_dots(plan, inner) : costs.of(plan, inner);
    keep_better(best, std::move(plan));
  }
}

/// The best product of matrices for each place of the batch and of what else stays apart.
Grouping plan_matrices(const RuleContext& context, const Block& block, const Product& product) {
  TileCosts costs(context, block, product);
  Grouping best = worst();
  const auto modes = [](const Axes& axes) { return axes.size() > 1 ? 3 : 1; };
  for (const bool swapped : {false, true}) {
    const int row_modes = modes(swapped ? product.columns : product.rows),
              column_modes = modes(swapped ? product.rows : product.columns);
    for (int choice = 0; choice < row_modes * column_modes * 2; ++choice) {
      const Choice chosen{swapped, choice / 2 % row_modes, choice / 2 / row_modes, choice % 2 != 0};
      if (chosen.nested && product.summed.size() < 2) continue;
      for (const bool dots : {false, true}) lay_matrices(context, product, chosen, dots, costs, best);
    }
  }
  return best;
}

/// Where arrays lie best for vectors along the batch, if that is better than `best`: the axes of a group lie as in the
/// result, or as in the operand that has them.
void lay_batch(const RuleContext& context, const Product& product, const BatchChoice& choice, TileCosts& costs,
               Grouping& best) {
  for (int order = 0; order < 12; ++order) {
    const Walked* batch_as[] = {&product.result, &product.left, &product.right};
    const bool in_operands = (order & 1) != 0;
    const Walked& rows_as = in_operands ? product.left : product.result;
    const Walked& columns_as = in_operands ? product.right : product.result;
    Axes batch = by_stride(product.batch, *batch_as[order / 4]), rows = by_stride(product.rows, rows_as),
         columns = by_stride(product.columns, columns_as);
    const Axes summed = by_stride(product.summed, (order & 2) != 0 ? product.left : product.right);
    Grouping plan;
    if (choice.batch) keep_run(batch, plan.apart, *batch_as[order / 4], product);
    if (choice.rows) keep_run(rows, plan.apart, rows_as, product);
    if (choice.columns) keep_run(columns, plan.apart, columns_as, product);
    plan.joined = {rows, columns, batch};
    plan.summed = summed_groups(summed, choice.nested);
    plan.vectors = Grouping::Vectors::batch;
    const auto groups = [&](const Axes& side) { return concatenated(concatenated({side}, plan.summed), {batch}); };
    plan.left = lay_out(context, plan, product.left, groups(rows), Walk::vectors, product);
    plan.right = lay_out(context, plan, product.right, groups(columns), Walk::vectors, product);
    plan.result = lay_out(context, plan, product.result, {rows, columns, batch}, Walk::vectors, product);
    if (plan.cycles + costs.least() >= best.cycles) continue;
    plan.rows = product.count(plan.joined[0]);
    plan.columns = product.count(plan.joined[1]);
    plan.depth = product.count(product.summed);
    const std::int64_t lanes = product.count(plan.joined[2]);
    plan.times = lanes * product.count(plan.apart);
    plan.cycles += costs.of_batch(plan, lanes);
    keep_better(best, std::move(plan));
  }
}

/// Vectors along the batch: a lane for each of so many small products.
Grouping plan_batch(const RuleContext& context, const Block& block, const Product& product) {
  TileCosts costs(context, block, product);
  Grouping best = worst();
  for (int i = 0; i < 16; ++i) {
    const BatchChoice choice{(i & 1) != 0, (i & 2) != 0, (i & 4) != 0, (i & 8) != 0};
    if ((choice.batch && product.batch.size() < 2) || (choice.rows && product.rows.size() < 2) ||
        (choice.columns && product.columns.size() < 2) || (choice.nested && product.summed.size() < 2))
      continue;
    lay_batch(context, product, choice, costs, best);
  }
  return best;
}

double scalar_term(const RuleContext& context, const Product& product) {
  const std::vector<CacheLevel>& caches = context.device.caches;
  double cycles = scalar_cycles;
  for (const Walked* access : {&product.left, &product.right}) {
    std::int64_t elements = 1, step = 0;
    for (size_t i = 0; i < product.extents.size(); ++i) {
      if (access->strides[i] != 0) elements *= product.extents[i];
    }
    for (const size_t i : product.summed) step = std::abs(access->strides[i]);
    const std::int64_t bytes = access->buffer->dtype.bytes();
    if (caches.empty() || step * bytes < caches.front().line_bytes || elements * bytes < caches.front().bytes) continue;
    cycles += elements * bytes < own_cache_bytes(context.device) ? near_line : far_line;
  }
  return cycles;
}

/// Cycles of the reduction as it lies.
double present_cycles(const RuleContext& context, const BlockRef& ref, const Product& product) {
  const Block& block = context.schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  const double terms = instance_count(block);
  const double scalar = terms * scalar_term(context, product);
  if (!shape) return scalar;
  const std::int64_t lanes = vector_lanes(block, context.device);
  const int bits = widest_bits(block);
  const auto extent = [&](const std::optional<size_t>& i) { return i ? product.extents[*i] : std::int64_t{1}; };
  const std::int64_t depth = product.count(product.summed);
  double cycles = scalar;
  if (shape->vector_space) {
    const TiledExtents extents{extent(shape->rows), extent(shape->vector_space), depth, shape->row_run};
    const double times = terms / static_cast<double>(*extents.rows * *extents.columns * depth);
    const RegisterTile tile = choose_tile(context.device, lanes, bits, extents);
    // Of elements between which other steps lie, vectors are picked for each tile of rows: nothing copies them first.
    double picked = 0;
    for (const Walked* access : {&product.left, &product.right}) {
      const bool between = std::any_of(product.summed.begin(), product.summed.end(), [&](size_t i) {
        return product.extents[i] > 1 && std::abs(access->strides[i]) == 1;
      });
      const std::int64_t step = std::abs(access->strides[*shape->vector_space]);
      if (between && step > 1) picked += picked_cycles * static_cast<double>(step - 1);
    }
    cycles = std::min(cycles, times * tile.cycles + picked * terms / static_cast<double>(tile.rows));
  } else if (shape->vector_reduce && (shape->rows || shape->columns)) {
    const std::int64_t run = product.extents[*shape->vector_reduce];
    const TiledExtents extents{extent(shape->rows), extent(shape->columns),
                               depth / run * ((run + lanes - 1) / lanes * lanes)};
    const double times = terms / static_cast<double>(*extents.rows * *extents.columns * depth);
    cycles = std::min(cycles, times * dot_product_cycles(context.device, lanes, bits, extents));
  }
  if (const auto across = plan_across(context, ref, *shape)) cycles = std::min(cycles, across->cycles);
  return cycles;
}

}  // namespace

std::optional<Grouping> plan_grouping(const RuleContext& context, const BlockRef& ref, const Product& product) {
  const Block& block = context.schedule.node(ref);
  // A product of two matrices is what the other rules are for, unless vectors can walk nothing of it.
  const bool plain =
      product.batch.size() < 2 && product.rows.size() < 2 && product.columns.size() < 2 && product.summed.size() < 2;
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (plain && shape && (shape->vector_space || (shape->vector_reduce && shape->rows && shape->columns)))
    return std::nullopt;
  Grouping best = plan_matrices(context, block, product);
  if (!product.batch.empty()) keep_better(best, plan_batch(context, block, product));
  const bool lies_so = plain && !best.left.copied && !best.right.copied && !best.result.copied;
  if (lies_so || best.cycles > worth_grouping * present_cycles(context, ref, product)) return std::nullopt;
  return best;
}

}  // namespace lathe
