#include "schedule/auto/register_tile.h"

#include <algorithm>
#include <numeric>

#include "schedule/auto/rule.h"
#include "schedule/auto/tile_rates.h"

namespace lathe {

bool counts_slots(const Device& device) {
  return tiles_fill_slots(device) && !multiplies_lines(device);
}

namespace {

constexpr std::int64_t most_vectors = 8;
/// Rows of a tile of one vector, where a multiplication takes the rows' elements from memory itself.
constexpr std::int64_t most_memory_rows = 28;
/// What a sum beyond those that hide the latency costs, as a part of all cycles, where it saves no load or its term
/// takes far longer than one: it is compiled like the others.
double sum_penalty(double cycles) {
  return cycles < 1e6 ? 0.03 : 0.01;
}
/// Cycles of a term from which on it evaluates a function, whose steps hide the latency of the sum; and the terms side
/// by side that hide theirs (measured on Zen 4, exponentials of sums of pairs: tiles of 12 to 28 sums take as long, and
/// three times as long to compile; of one or two 1.1 of the time). Half as many lanes would have each half as busy.
constexpr double function_terms = 12;
constexpr std::int64_t function_sums = 4;
/// That cost where sums share columns, and so save loads.
constexpr double shared_sum_weight = 0.2;
/// Loads that beginning another row weighs as much as, where rows share no columns: vectors of one row go on in lines
/// that come by themselves (measured on sums over the middle axis, of products and of squares).
constexpr double row_streams = 6;
/// Instructions of a step besides multiply-adds and loads: a counter, two addresses and a branch.
constexpr double loop_instructions = 4;
/// Bytes of an operand that is no longer near: a quarter of the second caches of today.
constexpr std::int64_t far_bytes = std::int64_t{256} << 10;
/// Bytes of a line, and of one way of a first cache: 64 sets of such.
constexpr std::int64_t line_bytes = 64, way_bytes = 64 * line_bytes;
/// Bytes a cycle that come from the second cache beside arithmetic, measured on Zen 4 (2 rows x 5 vectors of 256 bits
/// over panels of 115 KB: 160 bytes in 7.1 cycles).
constexpr double second_cache_bytes = 24;
/// Cycles that a load takes longer beside lines that come from the second cache, where two multiply-adds of 512 bits
/// start each cycle (measured on Cascade Lake, steps of 28 x 1, 14 x 2, 12 x 2 and 8 x 3 over panels of 37 to 110 KB:
/// 4.5, 2, 2 and 1.4 cycles longer than over panels in the first cache).
constexpr double filled_load_cycles = 0.14;
/// Cycles that a row beyond those that the ways of the first cache hold takes a step, as its line comes from the second
/// cache anew (measured on Cascade Lake, 24 x 1 over rows of 4 KB: 22 cycles a step, 12 over rows of 1.5 KB).
constexpr double pushed_out_cycles = 0.6;
/// Cycles that each row takes a step where there are more than the ways of the one set that holds them all: none is
/// left there for the next step (measured on Zen 4, 12 rows of 16 lanes: 20 cycles a step; 9 rows of 24 lanes, f64,
/// hide it).
constexpr double evicted_cycles = 1.7;
/// Cycles of a step for each multiple of the sums in flight that is missing to `ample_chains`: it waits, as results
/// come in an order that leaves it no choice (measured on Zen 4 with 8, 9, 10 and 12 sums of 256 bits: 0.89, 0.91, 0.94
/// and 0.98 of the peak).
constexpr double stall_cycles = 0.8;
/// A store under a mask in a vector register, on AMD's cores since Zen (Agner Fog's instruction tables, VMASKMOVPS).
constexpr double masked_store_cycles = 12;
/// Cycles from which on rows are worth cutting up for several cores.
constexpr double least_parted_cycles = 60e3;
/// By how much rows are to divide better among the cores than panels do.
constexpr double worth_parts = 1.1;
/// The same for parts of the rows below packed panels, which are then packed in a loop before that over the parts; and
/// cycles that a task takes at least.
constexpr double worth_packed_parts = 1.2, least_task_cycles = 15e3;
/// What stands for an extent that is not known: large, and no multiple of a tile.
constexpr std::int64_t unknown_extent = 1025;
/// What folding the lanes of one vector takes: together with its neighbours' (fold_columns), or alone.
constexpr double fold_cycles = 4, lone_fold_cycles = 9;
/// What steps of dot products take of the estimate, measured: both operands are loaded as vectors.
constexpr double dot_inefficiency = 1.1;
/// Cycles that such a step waits for a line from the second cache where multiply-adds leave few slots (measured on
/// Cascade Lake, 4 x 4 of 512 bits over 768 and 4096 steps of which 4 and 8 lines come from there: 14 and 24 cycles, 8
/// without; 2 x 4 of 256 bits over 512 steps, of which two do: 6.4 cycles, 4 without).
constexpr double dot_line_cycles = 1.6;
/// Columns that a tile of dot products takes whole, and what it has of them when there are more.
constexpr std::int64_t whole_columns = 7, dot_columns = 4;
/// Sums of a tile of dot products beyond which the loads are few already and folding is long to compile.
constexpr std::int64_t most_dot_sums = 20;

/// The weights of loads, and of vectors beyond them, beside two fused multiply-adds a cycle that leave few instructions
/// a slot (measured on Cascade Lake: 6 rows x 4 vectors of 512 bits take 0.92 to 0.96 of the time of 8 x 3).
constexpr double wide_load_weight = 4, wide_line_weight = 0.2;

/// Steps of a tile in one iteration, the sums of a tile and the cycles of all from which on they are worth compiling
/// (measured on Cascade Lake with 6 x 2 vectors of 256 bits, whose 20 instructions a step and four for the loop fill
/// all slots of six cycles: with four steps 512x512x512 takes 0.86 of the time, 128x128x128 0.89, and less than with
/// tiles of 4 x 3; with three, convolutions of 3x3 0.9, with seven, 7x7 by 2 0.63).
constexpr std::int64_t most_steps_together = 4, least_unrolled_sums = 8;
/// The same where slots are filled but not lacking (Zen 3: four take 1.003 of the time of two, and milliseconds more to
/// compile).
constexpr std::int64_t steps_of_filled_slots = 2;
constexpr double least_unrolled_cycles = 64e3;
/// Registers that the sums of a tile of one vector leave, where elements are loaded into one. LLVM 19 multiplies in
/// that register, as nothing else wants it: sums change registers with each step, and are spilled where few are free
/// (measured on Zen 3: 63 x 50 x 8, 448 times, in tiles of 13 x 1 1.4 times as long as of 11 x 1) or where two steps
/// are taken together (1000 x 8 x 500: 1.7 times).
constexpr std::int64_t registers_to_move_in = 5;
/// Steps of which none are left over where no divisor makes up such an iteration: a row of a window.
constexpr std::int64_t most_whole_steps = 7;

/// Rates to choose between tiles of one operation: what other ways to do it take is not estimated so.
Rates choosing_rates(const Device& device, const Rates& rates) {
  Rates result = rates;
  if (multiplies_lines(device)) {
    result.line_wait = filled_load_cycles;
    result.load_weight = wide_load_weight;
    result.line_weight = wide_line_weight;
  }
  return result;
}

/// Do multiplications take one element of memory for all lanes (Intel's manual, volume 2, 2.7.5, embedded broadcast)?
bool broadcasts_memory(const Device& device, int bits) {
  return device.has_feature("avx512f") && bits >= 32;
}

/// Where operands lie: the columns' beyond the first cache, rows so long that lines of one set may serve them all; and
/// whether each row has columns of its own, beside one operand that all share, or they are packed.
struct Distance {
  bool far = false, long_rows = false, own_columns = false, packed = false;
  bool rows_in_memory = false;  ///< the elements of rows that only one vector wants are operands in memory, not loaded
  double term_cycles = 0;       ///< what a vector of terms takes besides a product
  std::int64_t row_sets = 1;    ///< sets of the first cache that lines of the rows lie in
  bool rows_apart = false;      ///< rows beside packed columns lie in lines of their own, `row_sets` sets of them
  bool rows_in_set = false;     ///< rows beside other columns lie in lines of one set
  double streamed = 0;  ///< bytes of a step that come from the second cache, as a panel of columns fills the first
};

/// Sums that hide each other's latency.
double wanted_sums(const Device& device, const Rates& rates, double term_cycles) {
  return term_cycles >= function_terms ? static_cast<double>(function_sums) : wanted_chains(device, rates);
}

/// Rows whose lines the first cache has ways for; where they share several sets, columns that stream through these take
/// half of each.
std::int64_t room_for_rows(const Device& device, const Distance& distance) {
  const std::int64_t ways = device.caches.empty() ? most_rows_tried : device.caches.front().ways;
  return distance.row_sets > 1 ? std::max(ways, distance.row_sets * ways / 2) : ways;
}

/// Loads of a step, weighted: where the operands come from the second cache, vectors take a line of it each, and rows
/// beyond the ways of the first push each other out of it where they lie a power of two apart.
double weighted_loads(const Device& device, const Rates& rates, std::int64_t rows, std::int64_t vectors,
                      const Distance& distance) {
  if (distance.own_columns)
    return 1 + row_streams * static_cast<double>(rows) + 1.5 * static_cast<double>(rows * vectors);
  if (distance.packed && distance.rows_in_memory && vectors == 1) return 1;
  const std::int64_t room = room_for_rows(device, distance);
  const bool waits = distance.packed && rates.line_wait > 0;
  const std::int64_t excess =
      !waits && (distance.far || distance.long_rows) ? std::max<std::int64_t>(0, rows - room) : 0;
  const double beyond = distance.far ? 1.0 : distance.packed ? 0.0 : 0.5;
  return static_cast<double>(rows + 3 * excess) + (1 + beyond * rates.line_weight) * static_cast<double>(vectors);
}

double step_cycles(const Device& device, const Rates& rates, std::int64_t rows, std::int64_t vectors,
                   std::int64_t chains, const Distance& distance) {
  const auto sums = static_cast<double>(rows * vectors);
  const double terms = sums * distance.term_cycles / rates.arithmetic;
  const double loads = distance.own_columns
                           ? sums / rates.loads + terms + 0.5
                           : static_cast<double>(vectors) / rates.loads + static_cast<double>(rows) / 2;
  // A tile of few chains waits for the last result of each before it can add to it again.
  const double latency = static_cast<double>(device.fma_latency) / static_cast<double>(chains);
  const double in_flight = sums * static_cast<double>(chains) / wanted_sums(device, rates, distance.term_cycles);
  const double stalls = stall_cycles * std::clamp(ample_chains - in_flight, 0.0, ample_chains - 1);
  const double waits = distance.packed && distance.streamed > 0 ? rates.line_wait : 0;
  const std::int64_t pushed_out =
      distance.rows_apart ? std::max<std::int64_t>(0, rows - room_for_rows(device, distance)) : 0;
  const bool in_memory = distance.rows_in_memory && vectors == 1;
  const double issued = (sums + static_cast<double>(vectors + (in_memory ? 0 : rows)) + loop_instructions) /
                        static_cast<double>(device.issue_width);
  const double added = rates.overlap * sums / rates.arithmetic + (distance.own_columns ? 0 : terms);
  const bool evicted = distance.rows_in_set && rows > room_for_rows(device, distance);
  return std::max({added, loads, latency, distance.streamed / second_cache_bytes,
                   evicted ? evicted_cycles * static_cast<double>(rows) : 0,
                   distance.own_columns || !counts_slots(device) ? 0 : issued}) +
         load_slots * (distance.packed ? 1 : rates.load_weight) *
             weighted_loads(device, rates, rows, vectors, distance) +
         stalls + waits * static_cast<double>(rows + vectors) + pushed_out_cycles * static_cast<double>(pushed_out) +
         0.25;
}

double tile_cycles(const Device& device, const Rates& rates, std::int64_t rows, std::int64_t vectors,
                   std::int64_t chains, std::int64_t depth, const Distance& distance) {
  if (rows == 0 || vectors == 0) return 0;
  const auto sums = static_cast<double>(rows * vectors);
  const double folds = static_cast<double>(chains - 1) * sums / rates.arithmetic;
  return static_cast<double>(depth) * step_cycles(device, rates, rows, vectors, chains, distance) + folds +
         sums / rates.stores + tile_overhead_cycles;
}

/// The sets of the first cache that lines so many bytes apart lie in; 1 where that is not known.
std::int64_t sets_of_rows(std::int64_t bytes) {
  return bytes > 0 ? way_bytes / std::gcd(bytes, way_bytes) : 1;
}

}  // namespace

double step_arithmetic(const Device& device, const RegisterTile& tile, int bits) {
  const auto vector_bits = static_cast<int>(tile.lanes) * bits;
  return static_cast<double>(tile.rows * tile.vectors) / rates_of(device, vector_bits).arithmetic;
}

RegisterTile choose_tile(const Device& device, std::int64_t lanes, int bits, const TiledExtents& extents) {
  // Without fused multiply-add a product needs a register of its own.
  const std::int64_t registers = device.vector_registers - (device.fused_multiply_add ? 1 : 2);
  const std::int64_t all_rows = extents.rows.value_or(unknown_extent),
                     all_columns = extents.columns.value_or(unknown_extent),
                     depth = extents.depth.value_or(unknown_extent);
  while (extents.columns && lanes / 2 >= all_columns && lanes > 2) lanes /= 2;
  Distance distance{all_columns * depth * bits / 8 >= far_bytes,
                    depth * bits / 8 >= way_bytes,
                    !extents.shared_columns,
                    extents.packed_columns,
                    broadcasts_memory(device, bits) && !extents.loads_rows,
                    extents.term_cycles,
                    multiplies_lines(device) || extents.packed_columns ? sets_of_rows(extents.row_bytes) : 1,
                    extents.packed_columns && extents.row_bytes >= line_bytes,
                    !extents.packed_columns && extents.row_bytes > 0 && extents.row_bytes % way_bytes == 0};
  const std::int64_t near_bytes = device.caches.empty() ? far_bytes : device.caches.front().bytes;
  const bool moves = counts_slots(device) && !distance.rows_in_memory;
  const bool function = extents.term_cycles >= function_terms;
  const std::int64_t least_width = function ? lanes : std::min(lanes, std::max<std::int64_t>(2, lanes / 4));
  RegisterTile best;
  double least = 0;
  for (std::int64_t width = lanes; width >= least_width; width /= 2) {
    const Rates rates = rates_of(device, width * bits), choosing = choosing_rates(device, rates);
    // Without registers for masks, the last columns' is in a vector register, and stores under it are slow.
    const double masked = device.mask_registers == 0 && all_columns % width != 0 ? masked_store_cycles : 0;
    for (std::int64_t v = 1; v <= most_vectors; ++v) {
      const std::int64_t step_bytes = v * width * bits / 8;
      distance.streamed =
          extents.shared_columns && step_bytes * depth > near_bytes ? static_cast<double>(step_bytes) : 0;
      const std::int64_t most =
          distance.packed && distance.rows_in_memory && v == 1 ? most_memory_rows : most_rows_tried;
      for (std::int64_t r = 1; r <= std::min(most, all_rows); ++r) {
        if (r * v + v + (masked > 0 ? 1 : 0) > registers || (extents.row_run > 0 && extents.row_run % r != 0)) continue;
        if (moves && v == 1 && r + registers_to_move_in > device.vector_registers) continue;
        const std::int64_t panels = all_columns / (v * width), rest = (all_columns % (v * width) + width - 1) / width;
        if ((panels == 0 && rest < v) || (extents.whole_columns && all_columns % (v * width) != 0)) continue;
        if (extents.one_panel && v * width < all_columns) continue;
        const std::int64_t strips = all_rows / r, last = all_rows % r;
        std::int64_t chains = 1;
        // Vectors of windows, whose steps are not many, are on their way at the same time.
        while (!(extents.windows && r > 1) && !function &&
               static_cast<double>(r * v * chains) < wanted_chains(device, rates) &&
               2 * chains * (r * v + (r > 1 ? v : 0)) + v <= registers && depth >= 8 * chains)
          chains *= 2;
        const int bodies = (rest ? 2 : 1) * (last ? 2 : 1);
        const std::int64_t turns =
            extents.windows && chains == 1
                ? window_turns(device, *extents.windows, {r, v, width, depth}, registers, all_rows, all_columns)
                : 0;
        if (extents.windows && r > 1 && turns == 0) continue;
        const auto estimate = [&](const Rates& by) {
          const auto cost = [&](std::int64_t tile_rows, std::int64_t tile_vectors) {
            if (turns == 0) return tile_cycles(device, by, tile_rows, tile_vectors, chains, depth, distance);
            const WindowRates window_rates{
                by.arithmetic, by.loads,  static_cast<double>(device.issue_width), wanted_chains(device, by),
                registers,     line_bytes};
            return window_cycles(window_rates, *extents.windows, {tile_rows, tile_vectors, width, depth, turns}, bits);
          };
          double cycles = static_cast<double>(panels * strips) * cost(r, v) +
                          static_cast<double>(panels) * cost(last, v) + static_cast<double>(strips) * cost(r, rest) +
                          cost(last, rest);
          const double whole = cycles;
          cycles *= 1 + body_penalty(whole) * (bodies - 1);
          if (turns > 0) {
            // One vector of a row or the rest of one are the same body.
            const std::int64_t updates = (r + last) * (v > 1 && panels > 0 ? v + rest : v) * (depth / turns);
            const double all = whole * static_cast<double>(extents.windows->images);
            cycles *= 1 + window_penalty(all, updates, all_columns % width != 0);
          } else if (!extents.shared_columns || extents.term_cycles > 0) {
            const double spare =
                std::max(0.0, static_cast<double>(r * v) - wanted_sums(device, by, extents.term_cycles));
            cycles *= 1 + sum_penalty(whole) * (extents.shared_columns && !function ? shared_sum_weight : 1) * spare;
          }
          return cycles;
        };
        const double cycles = estimate(choosing);
        if (least > 0 && cycles >= least * 0.999) continue;
        least = cycles;
        best = {
            r, v, width, chains, multiplies_lines(device) ? estimate(rates) : cycles, std::max<std::int64_t>(turns, 1)};
      }
    }
  }
  return best;
}

std::int64_t steps_together(const Device& device, const RegisterTile& tile, double cycles, std::int64_t steps) {
  if (!counts_slots(device) || tile.vectors == 1 || tile.rows * tile.vectors < least_unrolled_sums ||
      cycles < least_unrolled_cycles)
    return 1;
  const std::int64_t most = lacks_issue_slots(device) ? most_steps_together : steps_of_filled_slots;
  const std::int64_t count = greatest_divisor(steps, 1, most).value_or(1);
  return count == 1 && steps <= most_whole_steps ? steps : count;
}

bool shifts_cheaply(std::int64_t extent, std::int64_t tile, std::int64_t lanes, std::int64_t least) {
  const std::int64_t rest = extent % tile, twice = (tile - rest) / lanes * lanes;
  return rest == 0 || twice * least <= extent;
}

namespace {

/// The longest share (longest_share) of panels of columns, the last of which may be narrower.
double longest_share_of_panels(const Device& device, const RegisterTile& tile, std::int64_t columns) {
  const std::int64_t cores = device.cores, all = (columns + tile.lanes - 1) / tile.lanes,
                     whole = (all - 1) / tile.vectors, last = all - whole * tile.vectors;
  const std::int64_t longest =
      std::max((whole + cores - 1) / cores * tile.vectors, whole / cores * tile.vectors + last);
  return static_cast<double>(longest * cores) / static_cast<double>(all);
}

}  // namespace

std::int64_t rows_of_core(const Device& device, const RegisterTile& tile, std::int64_t rows, std::int64_t columns,
                          double packing, std::int64_t least_whole) {
  const std::int64_t cores = device.cores, strips = (rows + tile.rows - 1) / tile.rows,
                     part = (strips + cores - 1) / cores * tile.rows, last = rows - (rows - 1) / part * part;
  // Whole panels of whole rows, or those of a single panel, become one loop (parallel_outer).
  const std::int64_t width = tile.vectors * tile.lanes;
  const bool one_loop = packing == 0 && (columns <= width || (rows % tile.rows == 0 && columns % width == 0));
  if (cores == 1 || one_loop || strips < cores || last < tile.rows || tile.cycles < least_parted_cycles ||
      !shifts_cheaply(rows, tile.rows, 1, least_whole))
    return 0;
  const double even = tile.cycles / static_cast<double>(cores),
               by_panels =
                   longest_share_of_panels(device, tile, columns) * (even + packing / static_cast<double>(cores)),
               by_rows = static_cast<double>(part * cores) / static_cast<double>(rows) * even + packing;
  return by_panels >= worth_parts * by_rows ? part : 0;
}

std::int64_t panel_row_parts(const Device& device, const RegisterTile& tile, std::int64_t rows, std::int64_t tasks,
                             double cycles, std::int64_t least_whole) {
  if (device.cores == 1) return 1;
  const auto time = [&](std::int64_t parts) {
    const std::int64_t part = rows / parts, strips = (part + tile.rows - 1) / tile.rows;
    return longest_share(device, tasks * parts) * static_cast<double>(strips * tile.rows) / static_cast<double>(part);
  };
  std::int64_t best = 1;
  for (std::int64_t parts = 2;
       parts * tile.rows <= rows && static_cast<double>(tasks * parts) * least_task_cycles <= cycles; ++parts) {
    const bool fits = rows % parts == 0 && shifts_cheaply(rows / parts, tile.rows, 1, least_whole);
    if (fits && time(parts) < 0.999 * time(best)) best = parts;
  }
  return time(1) >= worth_packed_parts * time(best) ? best : 1;
}

DotTile choose_dot_tile(const Device& device, const TiledExtents& extents) {
  const std::int64_t registers = device.vector_registers - 1, columns = extents.columns.value_or(unknown_extent),
                     rows = extents.rows.value_or(unknown_extent);
  if (extents.term_cycles >= function_terms) {
    const std::int64_t together = std::min(columns, function_sums);
    return {std::min(rows, function_sums / together), together};
  }
  const auto rows_of = [&](std::int64_t c) { return std::min(most_dot_sums, registers - c) / c; };
  // A single row takes columns in the place of rows.
  if (rows == 1) return {1, std::min(columns, rows_of(1) / 2 > 8 ? std::int64_t{8} : std::int64_t{4})};
  std::int64_t c = std::min(columns, columns <= whole_columns && rows_of(columns) >= 2 ? columns : dot_columns);
  while (c > 1 && rows_of(c) < 2) --c;
  std::int64_t r = std::clamp<std::int64_t>(rows_of(c), 1, 8);
  if (r >= rows) return {rows, c};
  // A shorter last tile is another body.
  for (std::int64_t even = r; even > r / 2; --even) {
    if (rows % even == 0) return {even, c};
  }
  return {r, c};
}

namespace {

/// Bytes of a vector of so many lanes, of a row of the operands, and of all columns.
struct DotBytes {
  std::int64_t lanes, vector, row, columns;
};

/// Cycles of a step of dot products beside its multiplications and loads, where multiply-adds leave these no time: it
/// waits for lines from the second cache, the columns' where all of them leave the first, and the rows', where those of
/// one tile do.
double dot_line_waits(const Device& device, const DotTile& tile, const DotBytes& bytes) {
  if (device.caches.empty()) return 0;
  const CacheLevel& near = device.caches.front();
  const std::int64_t far =
      (bytes.columns > near.bytes ? tile.columns : 0) + (tile.rows * bytes.row > near.bytes ? tile.rows : 0);
  return dot_line_cycles * static_cast<double>(far * bytes.vector) / near.line_bytes;
}

/// The cycles of a step. Where loads have time, columns come from the second cache as fast as it brings them, if a
/// block that makes up whole vectors of results leaves the first and several tiles of rows read it (Zen 4 with AVX2
/// alone: 1024 x 1024 x 1024 by dot products 0.6 of OpenBLAS's speed, turned around 0.96; 512 x 512 x 512 0.80
/// and 1.0).
double dot_step_cycles(const Device& device, const Rates& rates, const DotTile& tile, const DotBytes& bytes,
                       std::int64_t rows) {
  const auto sums = static_cast<double>(tile.rows * tile.columns), latency = static_cast<double>(device.fma_latency);
  const double loads = static_cast<double>(tile.rows + tile.columns) / rates.loads;
  const double cycles = std::max({sums / rates.arithmetic, loads, latency});
  if (lacks_issue_slots(device)) return cycles + dot_line_waits(device, tile, bytes);
  const std::int64_t block = std::min(bytes.columns, bytes.row * tile.columns * bytes.lanes);
  const bool again = !device.caches.empty() && block > device.caches.front().bytes && rows > 2 * tile.rows;
  return again ? std::max(cycles, static_cast<double>(tile.columns * bytes.vector) / second_cache_bytes) : cycles;
}

}  // namespace

double dot_product_cycles(const Device& device, std::int64_t lanes, int bits, const TiledExtents& extents) {
  const Rates rates = rates_of(device, lanes * bits);
  const auto rows = static_cast<double>(extents.rows.value_or(unknown_extent)),
             columns = static_cast<double>(extents.columns.value_or(unknown_extent));
  const std::int64_t depth = extents.depth.value_or(unknown_extent), vectors = (depth + lanes - 1) / lanes;
  const auto steps = static_cast<double>(vectors);
  const DotTile tile = choose_dot_tile(device, extents);
  const auto sums = static_cast<double>(tile.rows * tile.columns);
  const std::int64_t row_bytes = depth * bits / 8;
  const DotBytes bytes{lanes, lanes * bits / 8, row_bytes, extents.columns.value_or(unknown_extent) * row_bytes};
  const double step = dot_step_cycles(device, rates, tile, bytes, extents.rows.value_or(unknown_extent)) / sums;
  const bool together = tile.columns > 1 && extents.columns.value_or(unknown_extent) % tile.columns == 0;
  const double fold = together ? fold_cycles : lone_fold_cycles;
  return rows * columns * (steps * step * dot_inefficiency + fold + tile_overhead_cycles / sums);
}

}  // namespace lathe
