#pragma once
/// What a tile of rows whose windows overlap costs, all steps of which are taken in one body.
#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/device.h"

namespace lathe {

/// Rows of such a tile (Zen 4, 3x3: 14 rows of one vector take 1.3 times their arithmetic, 7 rows 1.15 times).
inline constexpr std::int64_t most_window_rows = 8;

/// Rows beside each other that read the same elements in different steps, as those of a stencil do.
struct Windows {
  size_t rows = 0, steps = 0;  ///< iters: over rows, and over the steps in which these meet
  std::int64_t count = 1;      ///< steps of the latter
  std::int64_t depth = 1;      ///< of all iters
  /// Vectors that so many rows load in these steps, for each vector of results and step of other iters.
  std::array<std::int64_t, most_window_rows + 1> loads{};
  std::int64_t images = 1;  ///< so many times all rows and columns are walked
  bool far = false;         ///< operands and results exceed the caches (exceeds_caches)
  /// Each lane has weights of its own, which rows share and no two vectors of a tile do.
  bool lane_weights = false;
  bool whole_lines = false;  ///< vectors begin with lines
  bool masked = false;       ///< whole vectors may be padding, so that each load takes one of two addresses
};

/// Counts the loads where row r reads in step k what lies r row strides and k step strides on, and of `own` further
/// operands has elements of its own in each step.
void count_loads(Windows& windows, std::int64_t row_stride, std::int64_t step_stride, std::int64_t own);

/// Rows, vectors of lanes, and steps of a tile, and over how many of these a loop goes.
struct WindowTile {
  std::int64_t rows = 1, vectors = 1, lanes = 1, depth = 1;
  std::int64_t turns = 1;
  /// Those of its body.
  std::int64_t updates() const { return rows * vectors * (depth / turns); }
};

/// How many turns a tile of the rows takes over the steps in which these meet: one where all steps fit a body, where
/// rows share what they load; else, of rows that wait for each other's sums less than for their own, all. 0 where it
/// cannot take them.
std::int64_t window_turns(const Device& device, const Windows& windows, const WindowTile& tile, std::int64_t registers,
                          std::int64_t all_rows, std::int64_t all_columns);

/// Multiply-adds, loads and instructions that start a cycle, multiply-adds in flight that keep the units busy,
/// registers of vectors, and bytes of a line.
struct WindowRates {
  double arithmetic, loads, issue, wanted_chains;
  std::int64_t registers, line_bytes;
};

/// Cycles of a tile: each vector of results takes its steps behind another's. Loads may cross lines, the more the wider
/// they are. Weights that do not stay in registers are loaded for each vector.
double window_cycles(const WindowRates& rates, const Windows& windows, const WindowTile& tile, int bits);

/// What so many updates in bodies of tiles cost, as a part of all cycles, for they have to be compiled: longer where
/// columns end in a part of a vector.
double window_penalty(double cycles, std::int64_t updates, bool masked);

}  // namespace lathe
