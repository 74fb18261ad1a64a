#include "schedule/auto/across_plan.h"

#include <algorithm>
#include <numeric>

#include "ir/buffer.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tile_reader.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Cycles an element takes to be copied to where the next one is far away: through squares that are turned around in
/// registers, whose lines come from a far cache or whose squares are small, or one by one.
constexpr double square_cycles = 0.75, single_cycles = 1.5;
/// Cycles that a step of a tile waits for its rows' line where each step's comes from beyond the second cache (measured
/// on Cascade Lake with tiles of 6 x 2 vectors of 256 bits: 32x1024x1024 18, 2048x2048x2048 37), and the bytes of steps
/// that have lines of their own for several tiles.
constexpr double beyond_cycles = 16;
constexpr std::int64_t least_apart = 256;
/// The same where two multiply-adds of whole lines start each cycle, which no wait hides behind: of an operand that
/// fills half of a core's own caches, by steps from so many bytes on (measured on Cascade Lake, tiles of 14 x 2 in 1x1
/// convolutions beside packed panels: 512 to 128 channels at 28 2.1 times as long, at 20 1.2, 256 to 64 at 28 1.3; 2048
/// to 256 at 14, of 784 bytes, 0.96).
constexpr std::int64_t far_step = 1024, far_part = 2;
/// Cycles that a vector waits that crosses lines beyond the first cache, beside such multiply-adds (measured on Cascade
/// Lake, tiles of 8 x 2 over rows of 28: 3x3 by 2 of 64 to 128 channels at 56 took 9 cycles a step longer than
/// its 9.5).
constexpr double crossing_cycles = 2.5;
/// What is estimated to take longer than this part is left as it is.
constexpr double worth_turning = 0.95;
/// A reader that costs more would be long to compile in so many copies: it reads results back from memory instead, in a
/// nest of its own, which takes so many cycles an element besides.
constexpr double costly_reader = 8, read_back_cycles = 0.5;
/// The part of the first cache that a strip's results may take.
constexpr std::int64_t strip_part = 4;
/// The part of the second cache that an operand may fill to be found there again.
constexpr double near_part = 2;
/// Rows of so many times a core's own caches are walked from behind those by each panel, beside multiplications of less
/// than a line (measured on Zen 3 with caches of 512 KB, beside one panel of up to six vectors or dot products: 64 x
/// 1024 x 768 by weights along the sum, of 3 MB, 0.67 of the time, 3x3 of 128 channels last at 28 0.75; 256 at 56, of
/// 3.4 MB, 1.35).
constexpr double shared_walks = 6;

/// The one operand that moves with `vectors` element by element; nothing when there are several, or it moves with
/// `rows` too or by steps that are no constant. Others stand still, or do so during runs of the length given.
std::optional<Buffer> operand_across(const Block& block, size_t vectors, size_t rows, std::int64_t run) {
  std::optional<Buffer> operand;
  const Accesses accesses = block_accesses(block);
  for (const Access& access : accesses) {
    const std::optional<std::int64_t>& stride = access.strides[vectors];
    if (access.buffer == block.f.writes[0].buffer || stride == 0 || (!stride && access.runs[vectors] == run && run > 1))
      continue;
    if (operand || access.masked || !stride || access.strides[rows] != 0) return std::nullopt;
    operand = access.buffer;
  }
  // Of one that the block reads elsewhere, too, as x @ x does, a copy would take all.
  return operand && load_count(accesses, *operand) == 1 ? operand : std::nullopt;
}

std::optional<size_t> operand_dimension(const Block& block, const Buffer& operand, size_t iter) {
  for (const Region& read : block.f.reads) {
    if (read.buffer == operand) return dimension_of(read, block, iter);
  }
  return std::nullopt;
}

/// Rows of a strip, whole tiles and squares unless it takes all rows: as many as leave most of the first cache to what
/// the tiles read.
std::int64_t strip_rows(const Device& device, std::int64_t rows, std::int64_t tile, std::int64_t side,
                        std::int64_t row_bytes) {
  const std::int64_t room = device.caches.empty() ? 0 : device.caches.front().bytes / strip_part / row_bytes,
                     step = std::lcm(tile, side);
  return rows <= std::max(room, step) ? rows : std::max(room / step, std::int64_t{1}) * step;
}

/// Rows that lie in whole squares; the others are stored one by one.
std::int64_t rows_in_squares(std::int64_t rows, std::int64_t strip, std::int64_t side) {
  return rows / strip * (strip / side * side) + rows % strip / side * side;
}

/// Does the second cache hold so many bytes beside as many others?
bool stays_near(double bytes, const Device& device) {
  return device.caches.size() > 1 && bytes * near_part <= static_cast<double>(device.caches[1].bytes);
}

/// Would panels after the first walk so many bytes of rows from far away again, which costs more than narrower tiles?
bool walk_again_from_far(double bytes, const Device& device) {
  if (multiplies_lines(device)) return !stays_near(bytes, device);
  const CacheLevel* own = own_cache(device);
  return own && bytes > shared_walks * static_cast<double>(own->bytes);
}

double estimated_bytes(const Buffer& buffer) {
  return estimated_elements(buffer) * buffer->dtype.bytes();
}

/// Does the operand that vectors walk stay near, and not what else is read?
bool others_are_larger(const Block& block, const Buffer& operand, const Device& device) {
  double others = 0;
  for (const Region& read : block.f.reads) {
    if (read.buffer != operand && read.buffer != block.f.writes[0].buffer) others += estimated_bytes(read.buffer);
  }
  return stays_near(estimated_bytes(operand), device) && !stays_near(others, device);
}

/// What only the rows of a tile walk.
struct RowOperands {
  double elements = 0, bytes = 0;
  std::int64_t row_bytes = 0;  ///< from one row to the next
};

RowOperands row_operands(const Block& block, const AcrossPlan& plan) {
  RowOperands result;
  for (const Access& access : block_accesses(block)) {
    if (access.store || access.buffer == block.f.writes[0].buffer || access.buffer == plan.operand) continue;
    if (access.strides[plan.rows] == 0) continue;
    result.elements += estimated_elements(access.buffer);
    result.bytes += estimated_bytes(access.buffer);
    result.row_bytes =
        std::max(result.row_bytes, std::abs(access.strides[plan.rows].value_or(0)) * access.buffer->dtype.bytes());
  }
  return result;
}

/// Does each step of the reduction take a line of the operand that neither the last one nor hardware has brought near?
bool steps_far(const RuleContext& context, const Block& block, const ReductionShape& shape, const Access& access) {
  const auto elements = constant_elements(access.buffer);
  const std::int64_t bytes = access.buffer->dtype.bytes();
  const auto walked = std::find_if(shape.reduce.rbegin(), shape.reduce.rend(),
                                   [&](size_t i) { return constant_extent(block, i) != 1; });
  return multiplies_lines(context.device) && elements && walked != shape.reduce.rend() &&
         *elements * bytes > own_cache_bytes(context.device) / far_part &&
         std::abs(access.strides[*walked].value_or(0)) * bytes >= far_step;
}

/// Could what only the rows of a tile walk be turned around (turn_operand)? Windows that slide along them could not.
bool rows_may_turn(const Block& block, size_t rows) {
  const VarRef& row = block.f.iters[rows].variable;
  bool slides = false;
  for (const Region& read : block.f.reads) {
    for (const Range& range : read.ranges) slides |= range.min != Expr(row) && uses_var(range.min, row.get());
  }
  return !slides;
}

/// Cycles of what is left where no operand can be turned around: dot products along short runs, each of which takes a
/// vector, or one element after another.
double lying_cycles(const Device& device, const Block& block, const ReductionShape& shape, TiledExtents extents) {
  if (!shape.vector_reduce) return instance_count(block) * static_cast<double>(device.fma_latency);
  const std::int64_t lanes = vector_lanes(block, device);
  double times = 1;
  extents.depth = 1;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::int64_t extent = constant_extent(block, i).value_or(1);
    if (block.f.iters[i].kind == IterKind::reduce) {
      *extents.depth *= i == shape.vector_reduce ? (extent + lanes - 1) / lanes * lanes : extent;
    } else if (i != shape.rows && i != shape.columns) {
      times *= static_cast<double>(extent);
    }
  }
  return times * dot_product_cycles(device, lanes, widest_bits(block), extents);
}

/// Is there no reduce iter along which dot products would fill a vector?
bool fills_no_vector(const Block& block, const ReductionShape& shape, std::int64_t lanes) {
  return !shape.vector_reduce || constant_extent(block, *shape.vector_reduce).value_or(lanes) < lanes;
}

/// Does each step's line of the operand come from beyond a core's own caches? The tiles of one strip of vectors find it
/// there after the first, where the lines of all steps stay; further strips walk the whole operand again. Measured on
/// Zen 4 with vectors of 256 bits, as multiples of the time of tiles that read packed panels: one strip of 16 over 1009
/// x 2048 takes 0.72, over 512 x 2048, whose lines meet in few sets, 1.16, over 700 x 4096, which exceeds the caches,
/// 1.8; two over 700 x 2048 take 1.08, over 512 x 4096 2.2, three over 777 x 4096 3.4.
bool comes_from_beyond(const RuleContext& context, const Block& block, const ReductionShape& shape,
                       const Access& access, std::int64_t depth, std::int64_t strips) {
  const CacheLevel* own = own_cache(context.device);
  const auto elements = constant_elements(access.buffer);
  // The nearest steps are taken one after another.
  std::int64_t least = 0;
  for (const size_t i : shape.reduce) {
    const std::int64_t distance = constant_extent(block, i) == 1 ? 0 : access.distances[i];
    if (distance > 0 && (least == 0 || distance < least)) least = distance;
  }
  const std::int64_t bytes = access.buffer->dtype.bytes(), step = least * bytes;
  if (!own || !elements || *elements * bytes <= own->bytes || step < least_apart) return false;
  return strips > 1 || exceeds_caches(context.device, static_cast<double>(*elements * bytes)) ||
         depth > lines_held(*own, step);
}

/// What a step of a tile waits for operands that only its rows walk, where lines do not stay for the next tile's.
double row_waits(const RuleContext& context, const Block& block, const std::vector<Access>& accesses,
                 const ReductionShape& shape, const AcrossPlan& plan, const RegisterTile& tile, std::int64_t depth,
                 std::int64_t strips) {
  const std::vector<CacheLevel>& caches = context.device.caches;
  if (caches.empty()) return 0;
  // Beside the panel of what vectors walk.
  const std::int64_t vectors_bytes = tile.vectors * tile.lanes * plan.operand->dtype.bytes();
  const bool stays = depth * (caches.front().line_bytes + vectors_bytes) <= caches.front().bytes;
  if (stays && !multiplies_lines(context.device)) return 0;
  double cycles = 0;
  for (const Access& access : accesses) {
    if (access.store || access.buffer == block.f.writes[0].buffer || access.buffer == plan.operand) continue;
    if (access.strides[plan.rows] != 1) continue;
    if (steps_far(context, block, shape, access) ||
        (!stays && comes_from_beyond(context, block, shape, access, depth, strips)))
      cycles += beyond_cycles;
  }
  return cycles;
}

/// What tiles of operands as they lie wait for vectors that cross lines beyond the first cache, beside multiplications
/// that leave loads no time.
double crossing_waits(const RuleContext& context, const Block& block, const ReductionShape& shape,
                      const RegisterTile& tile, std::int64_t depth, std::int64_t rows, std::int64_t columns) {
  if (!multiplies_lines(context.device) || !shape.vector_space || !shape.rows || tile.vectors < 2) return 0;
  const auto operand = vector_operand(block, *shape.rows, *shape.vector_space);
  const std::int64_t width = tile.vectors * tile.lanes;
  if (!operand) return 0;
  const std::int64_t bytes = operand->buffer->dtype.bytes();
  const CacheLevel& near = context.device.caches.front();
  bool crosses = false;
  for (const size_t i : shape.reduce) {
    const std::int64_t step = operand->strides[i].value_or(0);
    // Rows without gaps come as one stream.
    crosses |= step > 1 && step != columns && step * bytes % near.line_bytes != 0;
  }
  if (!crosses || depth * std::min(width, columns) * bytes <= near.bytes ||
      worth_packing(context, block, shape, *operand, tile, rows / tile.rows))
    return 0;
  const std::int64_t tiles = (rows + tile.rows - 1) / tile.rows * ((columns + width - 1) / width);
  return static_cast<double>(tiles * depth) * crossing_cycles * static_cast<double>(tile.vectors);
}

}  // namespace

std::optional<AcrossPlan> plan_across(const RuleContext& context, const BlockRef& ref, const ReductionShape& shape) {
  // Along what the result is contiguous.
  const std::optional<size_t> along = shape.vector_space ? shape.vector_space : shape.columns;
  if (!along || !shape.rows || shape.reduce.empty() || shape.column_run > 0) return std::nullopt;
  // Elements that all lanes take in are neighbours here, and loaded several at a time: beside products that need a
  // register of their own they push sums out (measured with SSE2, which took up to twice as long).
  if (!context.device.fused_multiply_add) return std::nullopt;
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const size_t vectors = *shape.rows;
  const auto operand = operand_across(block, vectors, *along, shape.row_run);
  const auto dimension = operand ? operand_dimension(block, *operand, vectors) : std::nullopt;
  if (!dimension || !dimension_of(block.f.writes[0], block, vectors)) return std::nullopt;
  AcrossPlan plan{.vectors = vectors, .rows = *along, .operand = *operand, .dimension = *dimension};
  const auto rows = constant_extent(block, plan.rows), all_columns = constant_extent(block, plan.vectors),
             copied = constant_elements(plan.operand);
  std::int64_t depth = 1;
  for (const size_t i : shape.reduce) depth *= constant_extent(block, i).value_or(0);
  if (!rows || !all_columns || !copied || depth == 0) return std::nullopt;
  // Columns that share the rows' operand: a tile stays among them.
  const std::int64_t columns = shape.row_run > 0 ? shape.row_run : *all_columns, groups = *all_columns / columns;
  if (*all_columns != groups * columns) return std::nullopt;
  double times = 1;
  for (const size_t i : shape.space) {
    if (i != plan.rows && i != plan.vectors)
      times *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
  }
  const auto reader = element_wise_reader(context, ref, shape, std::nullopt);
  const double cost = reader ? body_cost(schedule.node(*reader)) : 0;
  plan.stores_for_reader = reader && cost > costly_reader;
  const double reading = plan.stores_for_reader ? read_back_cycles : cost;

  const std::int64_t lanes = vector_lanes(block, context.device);
  const int bits = widest_bits(block);
  // What else could be done: tiles as operands lie, or as turn_operand turns them around, and its dot products.
  const RegisterTile lying = choose_tile(context.device, lanes, bits, {all_columns, rows, depth, shape.row_run});
  double best = times * lying.cycles;
  const RowOperands others = shape.vector_space ? RowOperands() : row_operands(block, plan);
  if (!shape.vector_space) best += near_square_cycles * others.elements;
  if (shape.reduce.size() == 1)
    best = std::min(best, times * dot_product_cycles(context.device, lanes, bits, {all_columns, rows, depth}));
  if (!shape.vector_space) {
    const double as_it_lies = lying_cycles(context.device, block, shape, {all_columns, rows, depth});
    if (!fills_no_vector(block, shape, lanes))
      best = std::min(best, as_it_lies);
    else if (!rows_may_turn(block, plan.rows))
      best = as_it_lies;
  }
  best *= worth_turning;
  const double crossing = stays_near(estimated_bytes(plan.operand), context.device)
                              ? times * crossing_waits(context, block, shape, lying, depth, *all_columns, *rows)
                              : 0;
  const Accesses accesses = block_accesses(block);
  bool found = false;
  for (const std::int64_t side : {square_sides[0], square_sides[1], std::int64_t{1}}) {
    if (side > widest_square(block, context.device)) continue;
    TiledExtents extents{rows, columns, depth};
    extents.whole_columns = extents.packed_columns = true;
    extents.row_bytes = others.row_bytes;
    extents.loads_rows = !takes_shared_elements(block);
    extents.one_panel = others.elements > 0 && walk_again_from_far(others.bytes, context.device);
    const RegisterTile tile = choose_tile(context.device, lanes, bits, extents);
    const std::int64_t width = tile.vectors * tile.lanes;
    if (tile.cycles == 0 || *rows < side || width % side != 0) continue;
    const std::int64_t strip = side > 1 ? strip_rows(context.device, *rows, tile.rows, side, width * bits / 8) : 0,
                       in_squares = side > 1 ? rows_in_squares(*rows, strip, side) : 0;
    const std::int64_t strips = (columns + width - 1) / width, tiles = strips * ((*rows + tile.rows - 1) / tile.rows);
    const double waits =
        row_waits(context, block, accesses, shape, plan, tile, depth, strips) * static_cast<double>(depth);
    const auto turned = static_cast<double>(in_squares), others = static_cast<double>(*rows - in_squares);
    const double storing = turned * (square_cycles + reading / static_cast<double>(side)) +
                           others * (single_cycles + reading),
                 cycles = times * static_cast<double>(groups) * (tile.cycles + static_cast<double>(tiles) * waits) +
                          square_cycles * static_cast<double>(*copied) +
                          times * static_cast<double>(*all_columns) * storing;
    // What a tile of one vector waits for is not estimated.
    if (cycles >= (found || tile.vectors < 2 ? best : best + crossing)) continue;
    best = cycles;
    plan.cycles = cycles;
    plan.side = side;
    plan.tile = tile;
    plan.cut = side > 1 ? plan_step_cut(context, block, shape, vectors, plan.rows, plan.operand, width) : std::nullopt;
    plan.strip = strip > tile.rows || plan.cut ? strip : 0;
    plan.panel_stays_near = stays_near(
        estimated_bytes(plan.operand) * static_cast<double>(width) / static_cast<double>(columns), context.device);
    plan.panels_inside = width < columns && others_are_larger(block, plan.operand, context.device);
    found = true;
  }
  return found ? std::optional(plan) : std::nullopt;
}

}  // namespace lathe
