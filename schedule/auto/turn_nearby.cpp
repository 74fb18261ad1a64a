#include "schedule/auto/turn_nearby.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Lines that a tile reads of each row of the array, and the share of a core's own cache that it fills at the most.
constexpr std::int64_t lines_of_tile = 4, part_of_cache = 4;

/// The iter along which the block, which does nothing but copy, reads what lies across what it writes, in whole
/// squares.
std::optional<size_t> turned_iter(const Block& block, std::int64_t side) {
  if (!only_space(block) || block.f.predicate || has_blocks(block) || is_sealed(block) || block.f.writes.size() != 1 ||
      body_cost(block) > copy_body)
    return std::nullopt;
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::int64_t* extent = as_int(block.f.iters[i].domain.extent);
    if (extent && *extent >= side && lies_along(accesses, i, false) && !lies_along(accesses, i, true)) return i;
  }
  return std::nullopt;
}

/// The outermost loop around all readers, over rows of what they read.
std::optional<LoopRef> loop_of_rows(const Schedule& schedule, const std::vector<BlockRef>& readers) {
  std::optional<LoopRef> rows;
  for (const BlockRef& reader : readers) {
    const std::vector<LoopRef> loops = schedule.loops(reader);
    if (loops.empty() || (rows && !(*rows == loops.front()))) return std::nullopt;
    rows = loops.front();
  }
  if (!rows || schedule.node(*rows).for_kind != ForKind::serial) return std::nullopt;
  return rows;
}

bool move_nearby(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::int64_t side = widest_square(block, context.device), own = own_cache_bytes(context.device);
  if (side < 2 || own == 0) return false;
  const std::optional<size_t> iter = turned_iter(block, side);
  if (!iter) return false;
  const Buffer copied = block.f.writes[0].buffer;
  const std::optional<std::int64_t> elements = constant_elements(copied);
  const std::int64_t element = copied->dtype.bytes();
  if (!is_allocated(schedule.func(), copied) || !elements || *elements * element * 2 <= own) return false;
  const auto loop = loop_of_rows(schedule, schedule.consumers(ref));
  const std::int64_t* extent = loop ? as_int(schedule.node(*loop).extent) : nullptr;
  const std::int64_t rows = *as_int(block.f.iters[*iter].domain.extent);
  if (!extent || repetition(schedule, block, {*loop}, 0) > 1) return false;
  const std::int64_t row = *elements / rows * element,
                     most = std::min(own / part_of_cache / row,
                                     lines_of_tile * context.device.caches.front().line_bytes / element);
  if (most < side || rows < most * context.device.cores) return false;
  const std::int64_t tile = greatest_divisor(rows, std::max(side, most / 2), most).value_or(most);
  // An iteration reads a row; or it reads several, or several read one, where axes were joined.
  if (*extent != rows && (rows % tile != 0 || *extent * tile % rows != 0)) return false;
  return attempt(context, fmt::format("turn {} around for {} rows at a time", copied->name, tile), [&] {
    const std::int64_t iterations = *extent * tile / rows;
    compute_at(schedule, ref, iterations > 1 ? split(schedule, *loop, iterations).first : *loop);
  });
}

}  // namespace

void turn_nearby(RuleContext& context) {
  for (const BlockRef& ref : context.schedule.blocks()) {
    if (!context.scheduled.contains(ref.name)) move_nearby(context, ref);
  }
}

}  // namespace lathe
