#include "schedule/auto/far_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "schedule/auto/block_model.h"
#include "schedule/auto/product.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/split.h"

namespace lathe {
namespace {

/// The parts of the second cache that a part of the far operand fills at the most, the next one coming beside it, and
/// that all results fill; and the part of the first cache for the other operand's.
constexpr std::int64_t far_part = 4, results_part = 4, beside_part = 2;
/// Steps from which on a part is worth loading and storing its sums, and rows that make up several tiles. Measured on
/// Cascade Lake: random contractions take 0.4 to 1 of the time, most of that by asking for the next part.
constexpr std::int64_t least_steps = 48, several_rows = 24;
/// How many times as many a part takes where no fewer divide the steps.
constexpr std::int64_t most_longer_parts = 4;
/// Parts that are added up, one after another, beyond which rounding errors of terms that are alike would be more than
/// those of the parts (400 of 50 steps: 3e-7 of the sum in f32); as far as a part still stays near.
constexpr std::int64_t most_additions = 256;
/// Bytes of a row of the far operand that a block of rows takes at the least, as shorter pieces break streams off; and
/// steps of its parts that fit beside. Measured on Zen 4, AVX2, the largest of the blocks beside packed rows or turned
/// results: 5000x64x1000 0.86 of the time, 2000x64x2000 0.76, 5000x40x5000 0.39; in 512 bits 5000x40x5000 0.7,
/// 1000x100x5000 0.9, 2000x64x2000 1.0; with twice the steps of half the rows 1.0 to 1.6 of that.
constexpr std::int64_t least_block_bytes = 2048, steps_of_block = 64;
/// Steps from which on vectors that are lines take blocks: the second cache holds the lines of fewer for the next tiles
/// (measured on Zen 4: 5000x40x1000 1.15 of the time in blocks, 6000x40x700 1.19, 2000x64x2000 1.0, 5000x33x5000 0.76).
constexpr std::int64_t least_steps_of_lines = 2000;
/// Iterations for each core of a loop that is shared out.
constexpr std::int64_t least_of_share = 2;
/// The part of the second cache that a far operand passes over; where loads have time to wait for lines of the third
/// (Zen 4), it is to exceed that, too: operands of 1 to 5 times the second cache take 1 to 1.4 of the time in parts, of
/// 9 times 0.76 to 0.88.
constexpr std::int64_t far_from = 2;

/// Does an operand lie so far that parts pay?
bool lies_far(const Device& device, std::int64_t bytes) {
  return lacks_issue_slots(device) ? bytes * far_from > own_cache_bytes(device)
                                   : exceeds_caches(device, static_cast<double>(bytes));
}

/// A contraction of two operands, whose indices may be quotients and remainders of joined axes.
struct Walks {
  std::vector<std::int64_t> extents;
  std::vector<Walked> operands;
  std::int64_t depth = 1, results = 1;
};

/// Nothing where an extent or a stride is no constant, or an operand is read under a mask.
std::optional<Walks> walks_of(const Block& block) {
  Walks walks;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::optional<std::int64_t> extent = constant_extent(block, i);
    if (!extent || *extent < 1) return std::nullopt;
    walks.extents.push_back(*extent);
    (block.f.iters[i].kind == IterKind::reduce ? walks.depth : walks.results) *= *extent;
  }
  for (const Access& access : block_accesses(block)) {
    if (access.buffer == block.f.writes[0].buffer) continue;
    Walked operand{access.buffer, {}};
    for (const auto& stride : access.strides) {
      if (!stride || access.masked) return std::nullopt;
      operand.strides.push_back(*stride);
    }
    walks.operands.push_back(std::move(operand));
  }
  return walks.operands.size() == 2 ? std::optional(std::move(walks)) : std::nullopt;
}

/// Bytes of what the iters reach of an operand, gaps included.
std::int64_t span_bytes(const Walked& operand, const std::vector<std::int64_t>& extents) {
  std::int64_t elements = 1;
  for (size_t i = 0; i < extents.size(); ++i) elements += std::abs(operand.strides[i]) * (extents[i] - 1);
  return elements * operand.buffer->dtype.bytes();
}

}  // namespace

std::optional<FarParts> plan_far_parts(const RuleContext& context, const BlockRef& reduction,
                                       const ReductionShape& shape) {
  const Device& device = context.device;
  if (device.caches.size() < 2 || !shape.vector_space || !shape.rows) return std::nullopt;
  const Block& block = context.schedule.node(reduction);
  const std::optional<Walks> walks = walks_of(block);
  if (!walks) return std::nullopt;
  const std::vector<std::int64_t>& extents = walks->extents;
  const std::int64_t own = own_cache_bytes(device);
  if (walks->results / extents[*shape.vector_space] < several_rows) return std::nullopt;
  const std::int64_t result_bytes = block.f.writes[0].buffer->dtype.bytes(),
                     near_rows = own / results_part / (walks->results / extents[*shape.rows] * result_bytes);
  const bool in_blocks = near_rows < extents[*shape.rows];
  // What the kernel makes itself, it makes near.
  const std::vector<Buffer> params = buffer_params(context.schedule.func());
  const auto reach = [&](const Walked& operand) {
    const bool given = std::find(params.begin(), params.end(), operand.buffer) != params.end();
    return given ? span_bytes(operand, extents) : 0;
  };
  // Of two that lie far, the one that rows walk: parts of both stay near.
  const auto is_far = [&](size_t i) { return lies_far(device, reach(walks->operands[i])); };
  size_t farthest = reach(walks->operands[0]) >= reach(walks->operands[1]) ? 0 : 1;
  if (walks->operands[farthest].strides[*shape.rows] == 0 && is_far(1 - farthest)) farthest = 1 - farthest;
  const Walked &far = walks->operands[farthest], &other = walks->operands[1 - farthest];
  if (!is_far(farthest) || far.strides[*shape.rows] == 0) return std::nullopt;
  // The iter that walks it furthest is cut, if it is one of the sum.
  size_t outermost = *shape.rows;
  for (size_t i = 0; i < far.strides.size(); ++i) {
    if (extents[i] > 1 && std::abs(far.strides[i]) > std::abs(far.strides[outermost])) outermost = i;
  }
  const std::int64_t extent = extents[outermost], within = walks->depth / extent, step = far.strides[outermost],
                     bytes = far.buffer->dtype.bytes();
  if (block.f.iters[outermost].kind != IterKind::reduce || step <= 0) return std::nullopt;
  const std::int64_t accurate = std::min(walks->depth / most_additions, own / far_part / (step * bytes) * within),
                     least = (std::max(least_steps, accurate) + within - 1) / within;
  std::int64_t most = own / far_part, block_rows = 0;
  if (in_blocks) {
    // Panels of the other operand follow each other around all tiles of a block, so that one stays near as it is.
    block_rows = std::min(near_rows, most / steps_of_block / bytes);
    if (lacks_issue_slots(device) || (fills_lines(device) && extent < least_steps_of_lines) ||
        far.strides[*shape.rows] != 1 || within > 1 || block_rows * bytes < least_block_bytes ||
        lines_held(device.caches.front(), step * bytes) < steps_of_block)
      return std::nullopt;
    most /= block_rows * bytes;
  } else {
    const std::int64_t beside = std::max<std::int64_t>(1, span_bytes(other, extents) / walks->depth * within);
    most = std::min(most / (step * bytes), device.caches.front().bytes / beside_part / beside);
  }
  auto steps = greatest_divisor(extent, least, std::max(most, least));
  for (std::int64_t more = least; !steps && more <= most_longer_parts * least; ++more) {
    if (extent % more == 0) steps = more;
  }
  // Parts that leave a core's own caches come from far away for each tile, as all would.
  const std::int64_t taken = (block_rows > 0 ? block_rows : step) * bytes;
  if (!steps || *steps == extent || *steps * taken > own) return std::nullopt;
  return FarParts{{outermost, *steps, std::nullopt, 1}, far.buffer, step * *steps, block_rows};
}

std::int64_t FarParts::rows_of_block(const Device& device, std::int64_t rows, std::int64_t tile_rows) const {
  const std::int64_t cores = device.cores, blocks = ((rows + block_rows - 1) / block_rows + cores - 1) / cores * cores,
                     even = (rows + blocks - 1) / blocks;
  return (even + tile_rows - 1) / tile_rows * tile_rows;
}

void share_parts(RuleContext& context, std::vector<LoopRef>& order) {
  const std::int64_t cores = context.device.cores;
  if (cores == 1) return;
  for (size_t i = 1; i < order.size(); ++i) {
    const std::int64_t* extent = as_int(context.schedule.node(order[i]).extent);
    if (!extent || *extent < least_of_share * cores) continue;
    const auto [shares, within] = split(context.schedule, order[i], (*extent + cores - 1) / cores);
    order[i] = within;
    order.insert(order.begin(), shares);
    return;
  }
  std::rotate(order.begin(), order.begin() + 1, order.end());
}

void ask_next_part(RuleContext& context, const FarParts& parts, const LoopRef& steps) {
  const std::vector<Buffer> params = buffer_params(context.schedule.func());
  const auto place = std::find(params.begin(), params.end(), parts.far) - params.begin();
  annotate(context.schedule, steps, fmt::format("prefetch_param_{}", place), parts.ahead);
  annotate(context.schedule, steps, "prefetch_cache", 2);
}

}  // namespace lathe
