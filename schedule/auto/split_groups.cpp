#include "schedule/auto/split_groups.h"

#include <fmt/format.h>

#include <numeric>

#include "schedule/auto/block_model.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/split_iter.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// An iter over results, the dimension of these that it walks, and how many of them a group has.
struct Groups {
  size_t iter, dimension;
  std::int64_t size;
};

std::optional<Groups> groups_of(const Block& block) {
  const std::vector<Range>& results = block.f.writes[0].ranges;
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::optional<std::int64_t> extent = constant_extent(block, i);
    std::int64_t run = 0;
    for (const Access& access : accesses) {
      if (!access.store && !access.strides[i]) run = std::gcd(run, access.runs[i]);
    }
    if (block.f.iters[i].kind != IterKind::space || !extent || run < 2 || run >= *extent || *extent % run != 0)
      continue;
    for (size_t d = 0; d < results.size(); ++d) {
      if (iter_at(block, results[d].min) == i) return Groups{i, d, run};
    }
  }
  return std::nullopt;
}

/// Copies each operand that moves along the iter to where the reduction's iters want it, with that one last.
void lay_operands(Schedule& schedule, const BlockRef& ref, size_t iter) {
  for (const Access& access : block_accesses(schedule.node(ref))) {
    if (writes(schedule.node(ref), access.buffer) || access.strides[iter].value_or(0) == 0) continue;
    const Buffer made = schedule.node(reindex(schedule, ref, access.buffer->name)).f.writes[0].buffer;
    const Block& block = schedule.node(ref);
    const Load* load = load_of(block, made);
    for (size_t d = 0; d + 1 < made->rank(); ++d) {
      if (iter_at(block, load->indices[d]) != iter) continue;
      transform_layout(schedule, ref, made->name, moved_last(made->rank(), d));
      break;
    }
  }
}

/// Has the one element-wise reader of the results walk the dimension in two loops, too: tiles then store through it.
void split_reader(RuleContext& context, const BlockRef& reader, const Buffer& results, const Groups& groups) {
  const Block& block = context.schedule.node(reader);
  const Load* load = load_of(block, results);
  const std::optional<size_t> iter = load ? iter_at(block, load->indices[groups.dimension]) : std::nullopt;
  const std::optional<LoopRef> loop = iter ? loop_of_iter(context.schedule, reader, *iter) : std::nullopt;
  if (loop && only_space(block)) split_iter(context.schedule, reader, *loop, groups.size);
}

/// What vectors that divide a group take, as a multiple of what idle lanes take, from which on these win though weights
/// are copied for them (measured on Zen 4, 3x3 with channels last: six filters a group 0.37 of the time, twelve 0.7,
/// twenty 0.65; twenty-four as long).
constexpr double worth_idle_lanes = 1.2;

}  // namespace

bool prefers_own_groups(const RuleContext& context, const Block& block) {
  const std::optional<Groups> groups = groups_of(block);
  const Accesses accesses = block_accesses(block);
  if (!groups || !stores_in_a_row(accesses, groups->iter)) return false;
  std::optional<std::int64_t> depth = 1;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const auto extent = constant_extent(block, i);
    if (block.f.iters[i].kind == IterKind::reduce)
      depth = depth && extent ? std::optional(*depth * *extent) : std::nullopt;
  }
  TiledExtents extents{std::nullopt, groups->size, depth};
  const std::int64_t lanes = vector_lanes(block, context.device);
  const double idle = choose_tile(context.device, lanes, widest_bits(block), extents).cycles;
  extents.whole_columns = true;
  const double whole = choose_tile(context.device, lanes, widest_bits(block), extents).cycles;
  return whole > worth_idle_lanes * idle;
}

bool split_groups(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const std::optional<Groups> groups = groups_of(schedule.node(ref));
  const std::optional<LoopRef> loop = groups ? loop_of_iter(schedule, ref, groups->iter) : std::nullopt;
  if (!loop) return false;
  return attempt(context, fmt::format("split {} of {} by groups of {}", loop->variable->name, ref.name, groups->size),
                 [&] {
                   if (schedule.consumers(ref).size() != 1) cache_write(schedule, ref, space::global);
                   const Buffer results = schedule.node(ref).f.writes[0].buffer;
                   split_reader(context, schedule.consumers(ref).front(), results, *groups);
                   split_iter(schedule, ref, *loop, groups->size);
                   transform_layout(schedule, ref, results->name,
                                    panel_layout(results->rank(), groups->size, groups->dimension, groups->dimension));
                   lay_operands(schedule, ref, groups->iter + 1);
                 });
}

}  // namespace lathe
