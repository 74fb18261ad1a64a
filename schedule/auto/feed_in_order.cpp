#include "schedule/auto/feed_in_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {

bool scatters_along(const Block& block, size_t iter) {
  const Accesses accesses = block_accesses(block);
  return block.f.iters[iter].kind == IterKind::ordered &&
         std::any_of(accesses.begin(), accesses.end(),
                     [&](const Access& access) { return access.store && !access.strides[iter] && !access.masked; });
}

bool stores_where_data_says(const Block& block) {
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (!has_blocks(block) && scatters_along(block, i)) return true;
  }
  return false;
}

bool converts_lane_by_lane(const Device& device, const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Cast* cast = e.as<Cast>();
    found |= cast && cast->dtype == i64 && cast->value->dtype == f64;
  });
  return found && device.mask_registers == 0;
}

bool waits_in_order(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers,
                    const LoopRef& loop) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const double least = asserts(block) ? 1.25 * costly_body : costly_body;
  return only_space(block) && block.f.iters.size() == 1 && body_cost(block) >= least &&
         !converts_lane_by_lane(context.device, block) &&
         std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader) {
           return schedule.loops(reader).back() == loop && stores_where_data_says(schedule.node(reader));
         });
}

bool fuse_block_by_block(RuleContext& context, const BlockRef& ref, const LoopRef& loop, std::int64_t iterations) {
  Schedule& schedule = context.schedule;
  if (extent_estimate(schedule.node(loop).extent, schedule.func()->facts) < 2 * iterations) return false;
  return attempt(context, fmt::format("compute {} under blocks of {} of {}", ref.name, iterations, loop.variable->name),
                 [&] { compute_at(schedule, ref, split(schedule, loop, iterations).first); });
}

}  // namespace lathe
