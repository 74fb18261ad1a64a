#include "schedule/auto/group_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "schedule/auto/dot_products.h"
#include "schedule/auto/group_plan.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/tile_reader.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/join_rows.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// One dimension a group of a buffer whose dimension d is walked by dimensions[d].
LayoutMap grouped_layout(const std::vector<std::optional<size_t>>& dimensions, const std::vector<Axes>& groups,
                         const Product& product) {
  LayoutMap map{same_layout(dimensions.size()).from, {}};
  const auto variable = [&](size_t iter) {
    const auto found = std::find(dimensions.begin(), dimensions.end(), iter);
    if (found == dimensions.end()) throw Refusal("tile_contractions", 0, "an axis is no dimension of its own");
    return Expr(map.from[static_cast<size_t>(found - dimensions.begin())]);
  };
  for (const Axes& group : groups) {
    Expr place = index(0);
    for (const size_t i : group) place = place * product.extents[i] + variable(i);
    map.to.push_back(place);
  }
  return map;
}

std::vector<std::optional<size_t>> iters_of(const Block& block, const std::vector<Expr>& indices) {
  std::vector<std::optional<size_t>> iters;
  iters.reserve(indices.size());
  for (const Expr& e : indices) iters.push_back(iter_at(block, e));
  return iters;
}

using Loops = std::vector<std::optional<LoopRef>>;  ///< of each iter

LoopRef loop_of(const Loops& loops, size_t iter) {
  const auto& loop = loops[iter];
  if (!loop) throw Refusal("tile_contractions", 0, "an axis has no loop of its own");
  return *loop;
}

class Grouper {
 public:
  Grouper(RuleContext& context, const BlockRef& block, const Product& product, const Grouping& plan)
      : context_(context), schedule_(context.schedule), block_(block), product_(product), plan_(plan) {}

  void run() {
    if (plan_.left.copied) copy(product_.left, plan_.left);
    if (plan_.right.copied) copy(product_.right, plan_.right);
    lay_result();
    std::vector<LoopRef> order = own_loops(schedule_, block_);
    for (const Axes& group : plan_.summed) {
      for (const size_t i : group) {
        std::erase(order, loop_of(own_, i));
        order.push_back(loop_of(own_, i));
      }
    }
    if (std::any_of(plan_.summed.begin(), plan_.summed.end(), [](const Axes& group) { return group.size() > 1; }))
      reorder(schedule_, order);
    for (const Axes& group : plan_.joined) join(own_, group);
    for (const Axes& group : plan_.summed) join(own_, group);
  }

 private:
  /// Has the block read a copy that is laid out by groups.
  void copy(const Walked& operand, const Layout& layout) {
    const BlockRef made = reindex(schedule_, block_, operand.buffer->name);
    const Buffer copied = schedule_.node(made).f.writes[0].buffer;
    const Block& reader = schedule_.node(block_);
    const auto dimensions = iters_of(reader, load_of(reader, copied)->indices);
    transform_layout(schedule_, block_, copied->name, grouped_layout(dimensions, layout.dimensions, product_));
    Loops loops(product_.extents.size());
    for (size_t d = 0; d < dimensions.size(); ++d) {
      if (const auto& iter = dimensions[d]) loops[*iter] = loop_of_iter(schedule_, made, d);
    }
    for (const Axes& run : layout.apart) join(loops, run);
    for (const Axes& group : layout.groups) join_runs(loops, group, operand);
    vectorize(made, loops, operand);
  }

  /// Finds the loops of the axes, and lays the result out by groups; what reads it walks them too, or copies it.
  void lay_result() {
    std::optional<BlockRef> reader;
    if (!plan_.result.copied) {
      const std::optional<ReductionShape> shape = reduction_shape(schedule_.node(block_));
      if (shape) reader = element_wise_reader(context_, block_, *shape, std::nullopt);
    }
    if (!reader) reader = cache_write(schedule_, block_, space::global);
    const Block& block = schedule_.node(block_);
    own_.resize(product_.extents.size());
    for (size_t i = 0; i < own_.size(); ++i) own_[i] = loop_of_iter(schedule_, block_, i);
    Loops reading(own_.size());
    for (const auto& [iter, loop] : matched_loops(block, schedule_.node(*reader))) reading[iter] = loop;
    const Region& written = block.f.writes[0];
    std::vector<Expr> indices;
    indices.reserve(written.ranges.size());
    for (const Range& range : written.ranges) indices.push_back(range.min);
    // What is written there is told apart by iters alone.
    std::vector<Axes> dimensions;
    for (const Axes& all : plan_.result.dimensions) {
      const auto& apart = plan_.result.apart;
      if (std::find(apart.begin(), apart.end(), all) == apart.end()) {
        dimensions.push_back(all);
      } else {
        for (const size_t i : all) dimensions.push_back({i});
      }
    }
    transform_layout(schedule_, block_, written.buffer->name,
                     grouped_layout(iters_of(block, indices), dimensions, product_));
    for (const Axes& run : plan_.result.apart) join(reading, run);
    for (const Axes& group : plan_.result.groups) {
      if (plan_.result.copied) {
        join_runs(reading, group, product_.result);
      } else {
        join(reading, group);
      }
    }
    if (plan_.result.copied) vectorize(*reader, reading, product_.result);
  }

  /// Has a copy walk an array of the program in the order of its axes, in vectors.
  void vectorize(const BlockRef& copy, const Loops& loops, const Walked& access) {
    std::vector<std::pair<std::int64_t, LoopRef>> order;
    for (size_t i = 0; i < loops.size(); ++i) {
      const auto& loop = loops[i];
      if (loop && access.strides[i] != 0) order.emplace_back(std::abs(access.strides[i]), *loop);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<LoopRef> wanted;
    wanted.reserve(order.size());
    for (const auto& [stride, loop] : order) wanted.push_back(loop);
    if (wanted.size() > 1) reorder(schedule_, wanted);
    vectorize_block(context_, copy);
  }

  /// Makes one loop of those of the axes, that of the last one.
  void join(Loops& loops, const Axes& axes) {
    for (size_t i = 0; i < axes.size(); ++i) {
      const LoopRef inner = loop_of(loops, axes[i]);
      if (i == 0) continue;
      loops[axes[i]] = join_rows(schedule_, loop_of(loops, axes[i - 1]), inner, product_.extents[axes[i]]);
      loops[axes[i - 1]].reset();
    }
  }

  /// Makes one loop of those of neighbouring axes that lie as one in an array.
  void join_runs(Loops& loops, const Axes& axes, const Walked& access) {
    for (size_t begin = 0, end = 1; begin < axes.size(); begin = end++) {
      while (end < axes.size() && lies_as_one(access, {axes[end - 1], axes[end]}, product_)) ++end;
      join(loops,
           Axes(axes.begin() + static_cast<std::ptrdiff_t>(begin), axes.begin() + static_cast<std::ptrdiff_t>(end)));
    }
  }

  RuleContext& context_;
  Schedule& schedule_;
  const BlockRef& block_;
  const Product& product_;
  const Grouping& plan_;
  Loops own_;
};

const char* vectors_along(const Grouping& plan) {
  switch (plan.vectors) {
    case Grouping::Vectors::columns:
      return "";
    case Grouping::Vectors::summed:
      return ", vectors along the reduction";
    case Grouping::Vectors::batch:
      return ", vectors along the batch";
  }
  LATHE_CHECK(false, "vectors walk something");
}

}  // namespace

bool group_axes(RuleContext& context, const BlockRef& ref) {
  const std::optional<Product> product = find_product(context.schedule.node(ref));
  const std::optional<Grouping> plan = product ? plan_grouping(context, ref, *product) : std::nullopt;
  // Tiles of dot products want groups of steps, and lay their operands out for these.
  if (!plan || plan_dot(context, ref)) return false;
  return attempt(context,
                 fmt::format("group the axes of {}: {} x {} x {}, {} times{}", ref.name, plan->rows, plan->columns,
                             plan->depth, plan->times, vectors_along(*plan)),
                 [&] { Grouper(context, ref, *product, *plan).run(); });
}

}  // namespace lathe
