#include "schedule/auto/paired_tile.h"

#include <algorithm>

#include "schedule/auto/tile_rates.h"

namespace lathe {
namespace {

/// Bodies of tiles that a kernel may have, edges included.
constexpr int most_paired_bodies = 4;
/// Cycles that a step of a paired tile takes longer for each vector in a line of its own that comes from the second
/// cache: where sums enough are in flight to catch up, and where each waits for the last (measured on Zen 4, 31 x 63
/// sums of 120 steps, 16 at a time: tiles of 3 x 3 to 5 x 5, and of 2 x 2).
constexpr double far_line_cycles = 1.4, waited_line_cycles = 4;

/// Vectors of a width along the columns.
struct Walk {
  const Device& device;
  const PairedExtents& extents;
  std::int64_t width;
  int bits;
  Rates rates;
};

double as_double(std::int64_t count) {
  return static_cast<double>(count);
}

/// The vectors of each step that come from the second cache: those of one operand, which follow each other while the
/// other's stay, or all where the lines of a tile do not fit the first. Which operand follows is decided later
/// (order_of_tiles): the one that has more of them is counted.
std::int64_t far_vectors(const Walk& walk, const PairedTile& tile) {
  if (walk.device.caches.empty()) return 0;
  const CacheLevel& near = walk.device.caches.front();
  const std::int64_t row = walk.extents.depth * std::max<std::int64_t>(near.line_bytes, walk.width * walk.bits / 8);
  if (std::min(walk.extents.rows + tile.others, walk.extents.others + tile.rows) * row <= near.bytes) return 0;
  const std::int64_t vectors = tile.rows + tile.others;
  return vectors * row > near.bytes ? vectors : std::max(tile.rows, tile.others);
}

double tile_cycles(const Walk& walk, const PairedTile& tile) {
  if (tile.rows == 0 || tile.others == 0) return 0;
  const double sums = as_double(tile.rows * tile.others), vectors = as_double(tile.rows + tile.others);
  const bool waits = sums <= wanted_chains(walk.device, walk.rates);
  const double step = std::max({walk.rates.overlap * sums / walk.rates.arithmetic, vectors / walk.rates.loads,
                                as_double(walk.device.fma_latency)}) +
                      as_double(far_vectors(walk, tile)) * (waits ? waited_line_cycles : far_line_cycles) +
                      load_slots * vectors + 0.25;
  return as_double(walk.extents.depth) * step + sums / walk.rates.stores + tile_overhead_cycles;
}

/// The cycles of all tiles, edges and a penalty for their bodies included.
double cycles_of(const Walk& walk, const PairedTile& tile, int bodies) {
  const std::int64_t rows = walk.extents.rows / tile.rows, last_rows = walk.extents.rows % tile.rows,
                     others = walk.extents.others / tile.others, last_others = walk.extents.others % tile.others;
  const auto cost = [&](std::int64_t r, std::int64_t o) { return tile_cycles(walk, {r, o, walk.width}); };
  const double strip = as_double(rows * others) * cost(tile.rows, tile.others) +
                       as_double(rows) * cost(tile.rows, last_others) +
                       as_double(others) * cost(last_rows, tile.others) + cost(last_rows, last_others);
  const double cycles = strip * as_double((walk.extents.columns + walk.width - 1) / walk.width);
  return cycles * (1 + body_penalty(cycles) * (bodies - 1));
}

}  // namespace

PairedTile choose_paired_tile(const Device& device, std::int64_t lanes, int bits, const PairedExtents& extents) {
  const std::int64_t registers = device.vector_registers - (device.fused_multiply_add ? 1 : 2);
  while (lanes / 2 >= extents.columns && lanes > 2) lanes /= 2;
  PairedTile best;
  for (std::int64_t width = lanes; width >= std::max<std::int64_t>(2, lanes / 2) || width == lanes; width /= 2) {
    const Walk walk{device, extents, width, bits, rates_of(device, width * bits)};
    for (std::int64_t r = 1; r <= std::min(most_rows_tried, extents.rows); ++r) {
      for (std::int64_t o = 1; o <= std::min(most_rows_tried, extents.others); ++o) {
        const int bodies =
            (extents.columns % width ? 2 : 1) * (extents.rows % r ? 2 : 1) * (extents.others % o ? 2 : 1);
        if (r * o + std::min(r, o) + 1 > registers || bodies > most_paired_bodies) continue;
        const double cycles = cycles_of(walk, {r, o, width}, bodies);
        if (best.cycles == 0 || cycles < best.cycles * 0.999) best = {r, o, width, cycles};
      }
    }
  }
  return best;
}

}  // namespace lathe
