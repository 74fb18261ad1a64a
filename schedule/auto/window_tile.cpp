#include "schedule/auto/window_tile.h"

#include <algorithm>
#include <vector>

namespace lathe {
namespace {

/// Updates of registers up to which a tile takes all steps of windows in one body (measured on Zen 4: 3x3 over 56x56 in
/// tiles of 2 x 7 0.8 of the time of row by row, 5x5 over 56x56 in 4 x 1 0.78, 7x7 over 28x28 in 4 x 1 0.7; of twice as
/// many updates 5x5 takes as long, and twice as long to compile).
constexpr std::int64_t most_updates = 200;
/// Rows of what exceeds the caches, which are then walked whole, for lines from memory come by themselves so (8 images
/// of 96 channels of 56x56: 2 x 7 as quick as 1 x 7, 4 x 2 and 4 x 1 1.6 times as long).
constexpr std::int64_t most_far_rows = 2;
/// What multiply-adds take beside their loads, one and two of which start a cycle, the cycles of a tile besides, and of
/// each row of the image that it begins (measured on Zen 4, tiles of 1 to 7 rows and 1 to 7 vectors of 512 and of 256
/// bits: 3x3 over 56x56, and by 2 over 112x112, where a copy of the image leaves the first cache).
constexpr double beside_loads = 1.05, pair_beside_loads = 1.2, tile_overhead = 4, begun_row_cycles = 1;
/// What turns over steps take beside what is counted (measured on Zen 4, AVX2, 5x5 over 40x40 and 7x7 over 28x28 in
/// tiles of 2 to 8 rows).
constexpr double in_turns = 1.3;
/// Instructions that choose an address, and those that a core has in flight (Zen 4 has room for 320, others for 224 to
/// 512).
constexpr double chosen_address = 2, instructions_in_flight = 256;
/// What an update costs, as a part of all cycles of a short kernel and of a long one, and how much more under masks
/// (Zen 4, 3x3 over 56x56: 5 ms and 70 us for each, 100 us with masks).
constexpr double short_update = 0.0008, long_update = 0.0002, masked_update = 1.4, long_cycles = 1e6;

double beside_loads_of(const WindowRates& rates) {
  return rates.arithmetic > 1 ? pair_beside_loads : beside_loads;
}

/// Cycles of a tile in turns: each update loads what it takes, within its instruction, and a weight is for all vectors.
double cycles_in_turns(const WindowRates& rates, const WindowTile& tile, double lines) {
  const auto updates = static_cast<double>(tile.updates() * tile.turns), weights = static_cast<double>(tile.depth);
  const double chains = std::min(1.0, static_cast<double>(tile.rows * tile.vectors) / rates.wanted_chains);
  return in_turns * std::max({beside_loads_of(rates) * updates / rates.arithmetic / chains,
                              (lines * updates + weights) / rates.loads, (updates + weights) / rates.issue}) +
         tile_overhead + 2 * begun_row_cycles * static_cast<double>(tile.turns);
}

}  // namespace

void count_loads(Windows& windows, std::int64_t row_stride, std::int64_t step_stride, std::int64_t own) {
  std::vector<std::int64_t> places;
  for (std::int64_t rows = 1; rows <= most_window_rows; ++rows) {
    for (std::int64_t k = 0; k < windows.count; ++k) places.push_back((rows - 1) * row_stride + k * step_stride);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    windows.loads[static_cast<size_t>(rows)] = static_cast<std::int64_t>(places.size()) + own * rows * windows.count;
  }
}

std::int64_t window_turns(const Device& device, const Windows& windows, const WindowTile& tile, std::int64_t registers,
                          std::int64_t all_rows, std::int64_t all_columns) {
  if (tile.rows > most_window_rows) return 0;
  if (tile.rows == 1) return tile.updates() <= most_updates ? 1 : 0;
  const std::int64_t width = tile.vectors * tile.lanes;
  // Without registers for masks parts of tiles take more (Zen 4 with AVX2 alone, 3x3 over 56x56: 3 and 5 rows 1.9 and
  // 1.5 times as long as 4).
  const bool whole = all_rows % tile.rows == 0 && (tile.vectors == 1 || all_columns % width == 0);
  const bool streams = tile.rows <= most_far_rows && width >= all_columns;
  if (windows.far && !streams) return 0;
  // Each row wants a register for a sum and one for what it loads, beside a weight.
  if (tile.updates() <= most_updates && 2 * tile.rows + 1 <= registers && (device.mask_registers > 0 || whole))
    return 1;
  const std::int64_t sums = tile.rows * tile.vectors;
  // Without fused multiply-add loads are instructions of their own.
  const bool rolls = device.fused_multiply_add && windows.count > 1 && !windows.lane_weights &&
                     all_rows % tile.rows == 0 && sums * (tile.depth / windows.count) <= most_updates &&
                     sums + 1 <= registers;
  return rolls ? windows.count : 0;
}

double window_cycles(const WindowRates& rates, const Windows& windows, const WindowTile& tile, int bits) {
  if (tile.rows == 0 || tile.vectors == 0) return 0;
  const double part = static_cast<double>(tile.lanes * bits / 8) / static_cast<double>(rates.line_bytes);
  const double lines = windows.whole_lines ? 1 : 1 + part;
  if (tile.turns > 1) return cycles_in_turns(rates, tile, lines);
  const std::int64_t places = windows.loads[static_cast<size_t>(tile.rows)];
  const auto loads = static_cast<double>(tile.vectors * (tile.depth / windows.count) * places);
  const bool keeps_weights = !windows.lane_weights && tile.rows * tile.vectors + places + tile.depth <= rates.registers;
  const auto weights = static_cast<double>(keeps_weights ? 0 : tile.vectors * tile.depth);
  const auto updates = static_cast<double>(tile.updates());
  const double slots = updates + weights + loads * (windows.masked ? 1 + chosen_address : 1);
  // Vectors follow each other, each in as many chains as rows; the next one's begin while these wait.
  const double vectors_in_flight = std::max(1.0, instructions_in_flight * static_cast<double>(tile.vectors) / slots);
  const double chains = std::min(1.0, static_cast<double>(tile.rows) * vectors_in_flight / rates.wanted_chains);
  return std::max({beside_loads_of(rates) * updates / rates.arithmetic / chains,
                   (lines * loads + weights) / rates.loads, slots / rates.issue}) +
         tile_overhead + begun_row_cycles * static_cast<double>(places);
}

double window_penalty(double cycles, std::int64_t updates, bool masked) {
  return (masked ? masked_update : 1) * (cycles < long_cycles ? short_update : long_update) *
         static_cast<double>(updates);
}

}  // namespace lathe
