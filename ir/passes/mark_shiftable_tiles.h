#pragma once
#include "ir/func.h"

namespace lathe {

/// The annotation by which a loop over tiles asks for its last tile to be shifted inwards where it is not whole.
inline constexpr const char* shift_last_key = "shift_last";
/// The annotation by which a loop says that this is proved to change no result: the places of a tile.
inline constexpr const char* shiftable_key = "shiftable_tile";

/// Says of the loops that ask for it whether their last tile may be moved back to where it is whole, so that all tiles
/// are alike and none needs a condition; partition_loops does it, and else would give the last tile a body of its own.
///
///   for io in [0, 10) @{shift_last: 1} {               for io in [0, 10) @{shiftable_tile: 13} {
///     unrolled for ii in [0, 13) {              ->       unrolled for ii in [0, 13) {
///       block B(v = io*13 + ii)                            block B(v = io*13 + ii)
///           where io*13 + ii < 127                             where io*13 + ii < 127
///
/// What the last tile has in common with the one before is then computed twice. A loop is marked where
///   - it is serial, and each block below binds one space iter to the begin of a tile and a place within the tile, all
///     of whose places occur, both nowhere else but in predicates, which end the iter's range alike for all blocks,
///   - bodies load, compute and store, and use these iters as summands of indices alone,
///   - what is written below is told apart by these iters, and each tile writes its elements before it reads them:
///     so a second run of an element gives what the first gave.
///
/// Runs while blocks still say what their iterations are, before reductions' inits become stores.
Func mark_shiftable_tiles(const Func& func);

}  // namespace lathe
