#pragma once
#include <optional>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/turn_squares.h"

namespace lathe {

/// A tile of an element-wise block whose turned operands are copied to a small buffer of their own, squares turned
/// around in registers, before the block itself walks the tile along its rows.
struct TurnedTile {
  /// Lies along where the block walks across: the dimensions that the two loops walk.
  struct Operand {
    Buffer buffer;
    size_t across, along;
  };
  std::int64_t rows, columns;  ///< iterations of the loops along and across
  std::int64_t parts;          ///< of the loop along, outside of all tiles
  std::vector<Operand> operands;
};

/// Is such a tile better than squares turned around where they are used? That is so
///   - where the rows that a group of squares reads meet in so few sets of the nearest cache that they push each other
///     out before the next group reads on in the same lines, as rows a power of two apart do, and come from beyond the
///     second cache;
///   - where the output goes past the caches (stream_outputs): whole lines in a row can be written so, squares cannot;
///   - where squares cannot be turned at their use (`apart`).
/// Nothing when squares are as good, or an operand is of a kind that cannot be copied. `across` and `along` are iters.
std::optional<TurnedTile> plan_tile(const RuleContext& context, const BlockRef& ref,
                                    const std::vector<Access>& accesses, size_t across, size_t along, std::int64_t side,
                                    const SquareGroup& group, bool apart);

/// Tiles the loops `across` and `along` of the block, two of `loops`, which are its own.
///
///   for i: for j:                              for jo: for io:
///     out[i, j] = x[j, i] + y[i, j]     ->       for j, i by squares: t[i, j] = x[j, i]
///                                                for i: for j by vectors: out[i, j] = t[i, j] + y[i, j]
void turn_tiles(RuleContext& context, const BlockRef& ref, std::vector<LoopRef> loops, const LoopRef& across,
                const LoopRef& along, const TurnedTile& tile, std::int64_t side);

}  // namespace lathe
