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
/// Nothing is made more than twice, and what is made again takes such a share of the tiles' own updates at the most, at
/// two for each element.
constexpr double most_again = 1.0 / 64, updates_of_copy = 2;
/// A loop under which no more than this is made twice has parts of its own (place_makers).
constexpr double least_repeated = 1.1;

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

/// Blocks of the outermost loop whose iterations need so little that they stay near, below loops that share nothing.
std::optional<RowBlocks> blocks_for(const RuleContext& context, const Block& maker, const Block& reduction,
                                    const std::vector<LoopRef>& around) {
  const Schedule& schedule = context.schedule;
  const double own = static_cast<double>(own_cache_bytes(context.device)), room = own * own_share;
  const Buffer& made = maker.f.writes[0].buffer;
  const double elements = estimated_elements(made, schedule.func()->facts);
  double outside = elements * made->dtype.bytes();
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
    if (!extent || repeated <= least_repeated || !reads_whole_rows(schedule, maker, around[depth])) return std::nullopt;
    const double step = (outside - live) / static_cast<double>(*extent - 1);
    const auto most = std::min(static_cast<std::int64_t>((room - live) / step) + 1, *extent / context.device.cores);
    auto count = greatest_divisor(*extent, 2, most);
    while (count && !shares_evenly(context.device, *extent / *count)) count = greatest_divisor(*extent, 2, *count - 1);
    if (!count) return std::nullopt;
    const double of_blocks = step * static_cast<double>(*count), needed = live + of_blocks - step;
    const double again = elements * (needed / of_blocks - 1) * updates_of_copy;
    const bool cheap = body_cost(maker) < function_body && needed <= 2 * of_blocks &&
                       again <= most_again * instance_count(reduction, schedule.func()->facts);
    return cheap ? std::optional(RowBlocks{depth, *count}) : std::nullopt;
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
