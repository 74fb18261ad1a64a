#pragma once
/// How many rows and vectors of a contraction's result are worked on at a time, from the device's description.
#include <cstdint>
#include <optional>

#include "ir/device.h"
#include "schedule/auto/window_tile.h"

namespace lathe {

/// Sums of a tile: rows x vectors of lanes, each taken up in so many chains.
struct RegisterTile {
  std::int64_t rows = 1, vectors = 1, lanes = 1;
  /// Steps of the reduction that are added up apart from each other, where the tile alone has too few sums to hide the
  /// latency of an addition.
  std::int64_t chains = 1;
  double cycles = 0;  ///< estimated, of the whole contraction
  /// Of windows, over the steps in which rows meet (window_turns); 1 where all steps are one body.
  std::int64_t turns = 1;
};

/// Cycles that the multiply-adds of one step of a tile take, of elements of so many bits.
double step_arithmetic(const Device& device, const RegisterTile& tile, int bits);

/// What is to be tiled; extents that are not known are taken for large.
struct TiledExtents {
  std::optional<std::int64_t> rows, columns, depth;
  std::int64_t row_run = 0;  ///< where not 0, aligned runs of so many rows share their columns, and a tile stays in one
  bool whole_columns = false;   ///< whole tiles make up the columns
  bool shared_columns = true;   ///< rows share what is loaded for the columns; else each has operands of its own
  bool packed_columns = false;  ///< what is loaded for the columns of a tile is compact, each vector in one line
  /// Bytes between the elements of two rows in what all lanes share; 0 where not known.
  std::int64_t row_bytes = 0;
  /// Cycles that a vector of what is added up takes besides those of a product of two loads.
  double term_cycles = 0;
  bool one_panel = false;   ///< a tile takes all columns
  bool loads_rows = false;  ///< what lanes share is loaded before arithmetic takes it
  /// Of the rows, where what they share is no panel of columns: only a tile that takes all steps in one body, or in
  /// turns (window_turns), then has several.
  std::optional<Windows> windows = std::nullopt;
};

/// The tile of fewest estimated cycles: accumulators, one vector of each column and one row's operand fit in the
/// registers; chains of fused multiply-adds cover its latency; columns are loaded once for all rows; each tile is
/// stored, and its loop begun and left, once. `lanes` is the widest vector; narrower ones are taken where they leave
/// fewer lanes idle, for units of full width are often two of half the width (Zen 4: 512 bits once or 256 bits twice a
/// cycle). Without cycles where no tile meets what the extents ask. The terms follow Low et al., "Analytical Modeling
/// Is Enough for High-Performance BLIS" (2016), section 4.2.
RegisterTile choose_tile(const Device& device, std::int64_t lanes, int bits, const TiledExtents& extents);

/// Do steps of multiply-adds of less than a line fill most of the slots in which instructions start? Then what counts
/// the steps of a tile takes what is left.
bool counts_slots(const Device& device);

/// How many of `steps` a tile takes one behind another in each iteration of their loop, so that counting and addresses
/// take few of the slots beside multiply-adds: a divisor of them; 1 where slots are no concern, or so few cycles are
/// spent in all that compiling it takes longer.
std::int64_t steps_together(const Device& device, const RegisterTile& tile, double cycles, std::int64_t steps);

/// May a last tile that is not whole be shifted inwards to where it is, at the price of no more than one of `least`
/// elements in whole vectors of `lanes` that are computed twice? True where all tiles are whole.
bool shifts_cheaply(std::int64_t extent, std::int64_t tile, std::int64_t lanes, std::int64_t least);

/// How many rows of a contraction, whole tiles of them, each core takes where panels of columns do not divide among the
/// cores, as three do not between two; 0 where they do, or rows do no better. Each core packs all panels for itself,
/// which takes `packing` cycles. A last tile that is not whole is shifted at the price of `least_whole`
/// (shifts_cheaply).
std::int64_t rows_of_core(const Device& device, const RegisterTile& tile, std::int64_t rows, std::int64_t columns,
                          double packing, std::int64_t least_whole);

/// Into how many equal parts the rows below each of `tasks` packed panels are cut, for cores that these would leave
/// idle: all tasks take `cycles`. A part's last tile is shifted at the price of `least_whole` (shifts_cheaply).
std::int64_t panel_row_parts(const Device& device, const RegisterTile& tile, std::int64_t rows, std::int64_t tasks,
                             double cycles, std::int64_t least_whole);

/// Rows and columns of a tile of dot products along the reduction: loads grow with their sum, multiplications with
/// their product. All columns where they are few, so that each row is read once.
struct DotTile {
  std::int64_t rows = 1, columns = 1;
};
DotTile choose_dot_tile(const Device& device, const TiledExtents& extents);

/// Estimated cycles of the same work as such dot products, whose lanes are folded at the end.
double dot_product_cycles(const Device& device, std::int64_t lanes, int bits, const TiledExtents& extents);

}  // namespace lathe
