#include "schedule/auto/part_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Reads of an element for which it is copied: a copy takes two cycles an element, a read a 32nd, of which a copy saves
/// an eighth (measured on Cascade Lake).
constexpr double parted_reuse = 512;

/// An iter that walks an operand, and how many elements it goes on with a step.
struct Walk {
  size_t iter;
  std::int64_t stride;
};

/// The iters that walk an operand: from line to line those outside of a tile and those of one; within a line those of
/// which each value has a pass of tiles to itself, and those of a tile, between elements of other passes.
struct Parting {
  std::vector<Walk> outside, far, passes, near;
};

/// Elements of a line and around it that a copy sets apart in straight-line code.
constexpr std::int64_t most_unrolled = 64;

/// How an operand is to be parted; nothing where no copy of it helps.
std::optional<Parting> parting(const RuleContext& context, const Block& block, const ReductionShape& shape,
                               const Access& access) {
  const auto elements = constant_elements(access.buffer);
  if (!elements || access.strides[shape.vector_space.value_or(0)] != 0 ||
      *elements * access.buffer->dtype.bytes() <= context.device.caches.front().bytes ||
      instance_count(block) < parted_reuse * static_cast<double>(*elements))
    return std::nullopt;
  const std::int64_t line = context.device.caches.front().line_bytes / access.buffer->dtype.bytes();
  Parting result;
  std::int64_t read = 1, unrolled = 1;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    const std::int64_t* extent = as_int(iter.domain.extent);
    const std::optional<std::int64_t>& step = access.strides[i];
    if (!step || !extent) return std::nullopt;
    if (*step == 0 || *extent == 1) continue;
    const std::int64_t stride = std::abs(*step);
    read *= *extent;
    if (stride < line) unrolled *= *extent;
    const bool tile = iter.kind == IterKind::reduce || i == shape.rows;
    (stride < line ? tile ? result.near : result.passes : tile ? result.far : result.outside).push_back({i, stride});
  }
  if (read != *elements || unrolled > most_unrolled || result.passes.empty() || result.near.empty())
    return std::nullopt;
  // Rows before steps, as tiles walk them.
  const auto row = [&](const Walk& walk) { return walk.iter == shape.rows; };
  const auto farther = [&](const Walk& a, const Walk& b) { return row(a) != row(b) ? row(a) : a.stride > b.stride; };
  std::stable_sort(result.far.begin(), result.far.end(), farther);
  std::stable_sort(result.near.begin(), result.near.end(), farther);
  const auto nearer = [](const Walk& a, const Walk& b) { return a.stride < b.stride; };
  const auto nearest = [&](const std::vector<Walk>& walks) {
    return std::min_element(walks.begin(), walks.end(), nearer)->stride;
  };
  return nearest(result.passes) < nearest(result.near) ? std::optional(result) : std::nullopt;
}

/// The copy `made[outside.., passes.., far.., near..]`: lines of the operand are read once, and lines of the copy
/// written whole.
void part(RuleContext& context, const BlockRef& ref, const std::string& operand, const Parting& parted) {
  Schedule& schedule = context.schedule;
  const BlockRef copy = reindex(schedule, ref, operand);
  const Buffer made = schedule.node(copy).f.writes[0].buffer;
  const Block& reader = schedule.node(ref);
  const Load* load = load_of(reader, made);
  LayoutMap map{same_layout(made->rank()).from, {}};
  std::vector<LoopRef> order;
  const auto loop_along = [&](size_t d) { return loop_of_iter(schedule, copy, d); };
  for (size_t d = 0; d < made->rank(); ++d) {
    if (!loop_along(d)) map.to.emplace_back(map.from[d]);  // of extent one, which no loop walks along
  }
  const auto place = [&](const std::vector<Walk>& walks, bool in_memory, bool in_time) {
    for (const Walk& walk : walks) {
      for (size_t d = 0; d < made->rank(); ++d) {
        const std::optional<LoopRef> loop = loop_along(d);
        if (!loop || iter_at(reader, load->indices[d]) != walk.iter) continue;
        if (in_memory) map.to.emplace_back(map.from[d]);
        if (in_time) order.push_back(*loop);
      }
    }
  };
  place(parted.outside, true, true);
  place(parted.far, false, true);
  place(parted.passes, true, true);
  place(parted.far, true, false);
  place(parted.near, true, true);
  transform_layout(schedule, ref, made->name, map);
  reorder(schedule, order);
  for (size_t i = parted.outside.size() + parted.far.size(); i + 1 < order.size(); ++i) unroll(schedule, order[i]);
  vectorize(schedule, order.back());
  context.scheduled.insert(copy.name);
}

}  // namespace

void part_operands(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!lacks_issue_slots(context.device) || context.device.caches.empty() || !shape || !shape->vector_space ||
      !shape->rows)
    return;
  for (const Access& access : block_accesses(block)) {
    if (access.store || access.masked || writes(block, access.buffer)) continue;
    const std::optional<Parting> parted = parting(context, block, *shape, access);
    if (!parted) continue;
    attempt(context, fmt::format("bring what tiles of {} read of {} together", ref.name, access.buffer->name),
            [&] { part(context, ref, access.buffer->name, *parted); });
    return;
  }
}

}  // namespace lathe
