#include "schedule/auto/turn_tiles.h"

#include <algorithm>
#include <bit>

#include "ir/error.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "schedule/access.h"
#include "schedule/auto/stream_outputs.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Lines of a row that a tile reads or writes one after another, which the prefetcher then follows; and the part of the
/// nearest cache that all copies of a tile may fill, the rest is for the lines around them. Measured on Zen 4: 64x64 of
/// f32 is best, half of either side takes a quarter longer; without asking for the next tile 2048x2048 takes 1.6 times
/// as long.
constexpr std::int64_t lines_of_row = 4, part_of_cache = 2;

/// The dimension of the one load of the buffer that an iter alone walks.
std::optional<size_t> dimension_of(const Block& block, const Buffer& buffer, size_t iter) {
  std::optional<size_t> found;
  for (const Region& read : block.f.reads) {
    if (read.buffer != buffer) continue;
    for (size_t d = 0; d < read.ranges.size(); ++d) {
      if (!uses_var(read.ranges[d].min, block.f.iters[iter].variable.get())) continue;
      if (found || read.ranges[d].min != Expr(block.f.iters[iter].variable)) return std::nullopt;
      found = d;
    }
  }
  return found;
}

/// How far the block's own loops move an iter: a part of its domain where the block stands under loops of what reads
/// it.
std::optional<std::int64_t> own_extent(const Schedule& schedule, const BlockRef& ref, size_t iter) {
  const std::optional<LoopRef> loop = driving_loop(schedule, ref, iter);
  const std::int64_t* extent = loop ? as_int(schedule.node(*loop).extent) : nullptr;
  return extent ? std::optional(*extent) : std::nullopt;
}

/// Places of one of the tiles that an extent is cut into, as equal as squares allow.
std::int64_t even_tile(std::int64_t extent, std::int64_t most, std::int64_t side) {
  if (extent <= most) return extent;
  const std::int64_t tiles = (extent + most - 1) / most;
  return ((extent + tiles - 1) / tiles + side - 1) / side * side;
}

/// Parts of the loop along, one a core, that lie outside of its tiles: a core then writes whole rows, or a stretch of
/// them. Columns would be pieces of pages that the others write, too, and prefetchers go on into them: where cores
/// share no cache, lines go back and forth (1024x1024 on two chiplets of Zen 4: 330 us, 215 so; 290 on one thread).
/// Only where tiles divide a part, whose last one would copy rows of the next otherwise.
std::int64_t parts_of_rows(const RuleContext& context, std::int64_t rows, std::int64_t others, std::int64_t edge,
                           std::int64_t side) {
  const std::int64_t cores = context.device.cores, part = rows / cores;
  return others < cores && rows % cores == 0 && part >= edge && part % even_tile(part, edge, side) == 0 ? cores : 1;
}

/// The loop of a copy that walks a dimension.
LoopRef loop_of_dimension(const Schedule& schedule, const BlockRef& copy, size_t dimension) {
  const Expr& binding = schedule.node(copy).f.bindings[dimension];
  for (const LoopRef& loop : own_loops(schedule, copy)) {
    if (uses_var(binding, loop.variable.get())) return loop;
  }
  throw Refusal("turn_tiles", 1, "turn_tiles refused: condition 1, a copy has a loop for each dimension of its tile");
}

}  // namespace

std::optional<TurnedTile> plan_tile(const RuleContext& context, const BlockRef& ref,
                                    const std::vector<Access>& accesses, size_t across, size_t along, std::int64_t side,
                                    const SquareGroup& group, bool apart) {
  if (context.device.caches.empty()) return std::nullopt;
  const CacheLevel& near = context.device.caches.front();
  const Block& block = context.schedule.node(ref);
  const auto rows = own_extent(context.schedule, ref, along), columns = own_extent(context.schedule, ref, across);
  if (!rows || !columns || *rows < 1 || *columns < 1) return std::nullopt;
  TurnedTile tile{};
  bool conflicts = false, whole_lines = true;
  std::int64_t bytes = 0, widest = 1;
  for (const Access& access : accesses) {
    const auto step = access.strides[along], distance = access.strides[across];
    const std::int64_t element = access.buffer->dtype.bytes();
    if (access.store) whole_lines &= step && *step * element % near.line_bytes == 0;
    if (access.store || step != 1 || !distance || *distance < side) continue;
    const auto others = std::count_if(accesses.begin(), accesses.end(),
                                      [&](const Access& other) { return other.buffer == access.buffer; });
    const auto by_column = dimension_of(block, access.buffer, across),
               by_row = dimension_of(block, access.buffer, along);
    if (others > 1 || access.masked || !by_column || !by_row) return std::nullopt;
    conflicts |= lines_held(near, *distance * element) < std::min(group.most * side, *columns);
    bytes += element;
    widest = std::max(widest, element);
    tile.operands.push_back({access.buffer, *by_column, *by_row});
  }
  const std::vector<CacheLevel>& caches = context.device.caches;
  conflicts &= instance_count(block, context.schedule.func()->facts) *
                   static_cast<double>(bytes + block.f.writes[0].buffer->dtype.bytes()) >
               static_cast<double>(caches[std::min<size_t>(1, caches.size() - 1)].bytes);
  const bool streams = whole_lines && may_stream(block.f.writes[0].buffer, context.device);
  if (tile.operands.empty() || (!conflicts && !streams && !apart)) return std::nullopt;
  const std::int64_t run = lines_of_row * near.line_bytes / widest;
  std::int64_t edge = std::bit_floor(static_cast<std::uint64_t>(run));
  while (edge > side && edge * edge * bytes * part_of_cache > near.bytes) edge /= 2;
  const double others = instance_count(block, context.schedule.func()->facts) / static_cast<double>(*rows * *columns);
  tile.parts = parts_of_rows(context, *rows, static_cast<std::int64_t>(others), edge, side);
  tile.rows = even_tile(*rows / tile.parts, edge, side);
  tile.columns = even_tile(*columns, edge, side);
  return tile;
}

void turn_tiles(RuleContext& context, const BlockRef& ref, std::vector<LoopRef> loops, const LoopRef& across,
                const LoopRef& along, const TurnedTile& tile, std::int64_t side) {
  Schedule& schedule = context.schedule;
  std::vector<BlockRef> copies;
  copies.reserve(tile.operands.size());
  for (const TurnedTile::Operand& operand : tile.operands) {
    copies.push_back(cache_read(schedule, ref, operand.buffer->name, space::global));
    const Buffer copied = schedule.node(copies.back()).f.writes[0].buffer;
    if (operand.across + 1 != copied->rank())
      transform_layout(schedule, copies.back(), copied->name, moved_last(copied->rank(), operand.across));
  }

  const auto tiled = [&](const LoopRef& loop, std::int64_t step) {
    const std::int64_t extent = *as_int(schedule.node(loop).extent);
    const auto [tiles, within] = split(schedule, loop, step);
    if (extent % step != 0) annotate(schedule, tiles, shift_last_key, 1);
    return std::pair(tiles, within);
  };
  std::erase(loops, across);
  std::erase(loops, along);
  LoopRef part = along;
  if (tile.parts > 1) {
    const auto [parts, within] = split(schedule, along, *as_int(schedule.node(along).extent) / tile.parts);
    loops.push_back(parts);
    part = within;
  }
  const auto [rows, row] = tiled(part, tile.rows);
  const auto [columns, column] = tiled(across, tile.columns);
  loops.insert(loops.end(), {columns, rows, row, column});
  reorder(schedule, loops);
  for (size_t i = 0; i < copies.size(); ++i) {
    compute_at(schedule, copies[i], rows);
    const LoopRef by_column = loop_of_dimension(schedule, copies[i], tile.operands[i].across),
                  by_row = loop_of_dimension(schedule, copies[i], tile.operands[i].along),
                  squares = turn_squares(schedule, own_loops(schedule, copies[i]), by_column, by_row, side, {1, 1});
    // The lines of the next tile, into the second cache: in the first they would push out each other, and this one's.
    annotate(schedule, squares, "prefetch_offset", tile.rows);
    annotate(schedule, squares, "prefetch_cache", 2);
    context.scheduled.insert(copies[i].name);
  }
  const std::int64_t lanes = vector_lanes(schedule.node(ref), context.device);
  vectorize(schedule, tile.columns > lanes ? split(schedule, column, lanes).second : column);
}

}  // namespace lathe
