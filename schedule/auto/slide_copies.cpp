#include "schedule/auto/slide_copies.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A block's part takes such a share of a core's own caches, beside what else the tiles read and write; all of the copy
/// so many times these caches, as parts of less gain nothing.
constexpr double own_share = 0.5, least_far = 2;
/// How often what is made is made at the most; and what is made again takes such a share of the tiles' own updates, at
/// two for each element.
constexpr double most_times = 2, most_again = 1.0 / 64, updates_of_copy = 2;

/// A loop, and how many of its iterations are taken together.
struct RowBlocks {
  size_t depth;
  std::int64_t iterations;
};

/// Does an iteration of the loop need whole rows of what the block makes? Pieces of a line or two cost more than they
/// save.
bool reads_whole_rows(const Schedule& schedule, const Block& block, const LoopRef& loop) {
  const Region region = region_read(schedule, block, loop);
  const auto more = constant_difference(region.ranges.back().extent, region.buffer->shape.back());
  return more && *more >= 0;
}

/// Iterations for each block, so many beside the first at the most, of which cores get even shares.
std::optional<std::int64_t> iterations_of_block(const Device& device, std::int64_t extent, double beside) {
  const auto most = std::min(static_cast<std::int64_t>(beside) + 1, extent / device.cores);
  auto count = greatest_divisor(extent, 2, most);
  while (count && !shares_evenly(device, extent / *count)) count = greatest_divisor(extent, 2, *count - 1);
  return count;
}

/// Does what is made so many times cost little beside what the tiles do with it?
bool is_cheap(const RuleContext& context, const Block& maker, const Block& reduction, double times) {
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  const double again = estimated_elements(maker.f.writes[0].buffer, facts) * (times - 1) * updates_of_copy;
  return body_cost(maker) < function_body && times <= most_times &&
         again <= most_again * instance_count(reduction, facts);
}

/// Blocks of the outermost loop whose iterations need so little that they stay near, below loops that share nothing.
std::optional<RowBlocks> blocks_for(const RuleContext& context, const Block& maker, const Block& reduction,
                                    const std::vector<LoopRef>& around) {
  const Schedule& schedule = context.schedule;
  const double own = static_cast<double>(own_cache_bytes(context.device)), room = own * own_share;
  const Buffer& made = maker.f.writes[0].buffer;
  double outside = estimated_elements(made, schedule.func()->facts) * made->dtype.bytes();
  for (size_t depth = 0; depth + 1 < around.size() && outside > least_far * own; ++depth) {
    if (is_int(schedule.node(around[depth]).extent, 1)) continue;
    const double live = live_bytes(schedule, maker, around[depth]),
                 repeated = repetition(schedule, maker, around, depth);
    if (live > room) {
      if (repeated > 1) return std::nullopt;
      outside = live;
      continue;
    }
    const std::int64_t* extent = as_int(schedule.node(around[depth]).extent);
    if (!extent || repeated <= most_repetition || !reads_whole_rows(schedule, maker, around[depth]))
      return std::nullopt;
    const double step = (outside - live) / static_cast<double>(*extent - 1);
    const auto count = iterations_of_block(context.device, *extent, (room - live) / step);
    if (!count) return std::nullopt;
    const double of_blocks = step * static_cast<double>(*count), needed = live + of_blocks - step;
    return is_cheap(context, maker, reduction, needed / of_blocks) ? std::optional(RowBlocks{depth, *count})
                                                                   : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool slide_copy(RuleContext& context, const BlockRef& maker, const BlockRef& reduction, std::vector<LoopRef>& around) {
  Schedule& schedule = context.schedule;
  const auto blocks = blocks_for(context, schedule.node(maker), schedule.node(reduction), around);
  if (!blocks) return false;
  const LoopRef loop = around[blocks->depth];
  const std::string decision = fmt::format("make {} for {} under blocks of {} of {}", maker.name, reduction.name,
                                           blocks->iterations, loop.variable->name);
  return attempt(context, decision, [&] {
    const auto [outer, inner] = split(schedule, loop, blocks->iterations);
    compute_at(schedule, maker, outer);
    around[blocks->depth] = outer;
    around.insert(around.begin() + static_cast<std::ptrdiff_t>(blocks->depth) + 1, inner);
  });
}

}  // namespace lathe
