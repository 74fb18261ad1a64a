#include "schedule/auto/near_copies.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What is copied at a time takes such a share of the first cache, beside what is read and written.
constexpr double near_share = 2;

bool fits_nearby(const Device& device, double bytes) {
  return !device.caches.empty() && bytes * near_share <= static_cast<double>(device.caches.front().bytes);
}

/// Does a core's own cache hold the part beside what is read and written, but not all of the copy?
bool stays_in_own_cache(const Device& device, double part, double all) {
  const auto own = static_cast<double>(own_cache_bytes(device));
  return part * near_share <= own && all > own;
}

/// The deepest loop of the reader under which nothing of the copy is made twice, where what an iteration reads is near.
std::optional<LoopRef> loop_for(const RuleContext& context, const BlockRef& copy, const BlockRef& reader, double all) {
  const std::vector<LoopRef> loops = loops_of_parts(context, copy, reader, 1);
  const Schedule& schedule = context.schedule;
  if (loops.empty() || costs_squares(context, copy, loops.back())) return std::nullopt;
  const double part = live_bytes(schedule, schedule.node(copy), loops.back());
  const bool near = fits_nearby(context.device, part) || stays_in_own_cache(context.device, part, all);
  return near ? std::optional(loops.back()) : std::nullopt;
}

bool move_near(RuleContext& context, const BlockRef& ref, const NameSet& moved) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (context.device.caches.empty() || block.f.reducer || block.f.writes.size() != 1 || is_sealed(block) ||
      has_blocks(block) || fusion_wish(block) == FusionWish::apart)
    return false;
  const Buffer made = block.f.writes[0].buffer;
  const std::vector<BlockRef> readers = schedule.consumers(ref);
  if (readers.size() != 1 || !is_allocated(schedule.func(), made)) return false;
  const BlockRef& reader = readers[0];
  const Block& reads = schedule.node(reader);
  const bool placed = context.scheduled.contains(reader.name) && reads.f.reducer;
  if (!placed && !moved.contains(reader.name)) return false;
  const double bytes = estimated_elements(made, schedule.func()->facts) * made->dtype.bytes();
  if (bytes <= static_cast<double>(context.device.caches.front().bytes)) return false;
  const auto loop = loop_for(context, ref, reader, bytes);
  if (!loop || parts_operands(schedule, ref, *loop) || checks_few(context, block, *loop)) return false;
  const std::string row = loop->variable->name;
  return attempt(context, fmt::format("copy for each {} what {} reads of {}", row, reader.name, made->name),
                 [&] { compute_at(schedule, ref, *loop); });
}

}  // namespace

bool copied_nearby(const RuleContext& context, const Block& reduction, const Buffer& operand) {
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  double bytes = estimated_elements(operand, facts) * operand->dtype.bytes();
  for (const Region& read : reduction.f.reads) {
    if (read.buffer != operand) continue;
    for (const Iter& iter : reduction.f.iters) {
      const auto is_iter = [&](const Range& range) { return range.min == Expr(iter.variable); };
      if (iter.kind == IterKind::space && std::any_of(read.ranges.begin(), read.ranges.end(), is_iter))
        bytes /= static_cast<double>(extent_estimate(iter.domain.extent, facts));
    }
  }
  return fits_nearby(context.device, bytes);
}

void near_copies(RuleContext& context) {
  Schedule& schedule = context.schedule;
  NameSet moved;
  std::vector<BlockRef> blocks = schedule.blocks();
  std::reverse(blocks.begin(), blocks.end());
  for (const BlockRef& ref : blocks) {
    if (!context.scheduled.contains(ref.name) && move_near(context, ref, moved)) moved.insert(ref.name);
  }
}

}  // namespace lathe
