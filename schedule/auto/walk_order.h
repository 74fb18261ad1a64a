#pragma once
/// The order of loops around tiles, by how much of the arrays comes from memory anew.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// An array as nested loops walk it: a stride in elements for each loop.
struct LoopWalk {
  std::vector<std::int64_t> strides;
  std::int64_t element_bytes = 0;
  bool store = false;
};

/// Loops around a tile, in any order, and those within one.
struct LoopNest {
  std::vector<std::int64_t> extents;
  size_t outer = 0;  ///< the first so many are around the tile
  std::vector<LoopWalk> walks;
  bool in_windows = false;  ///< tiles take all steps of windows that overlap in one body
};

/// The order of the outer loops, outermost first, in which the fewest lines and pieces of arrays are read and written
/// anew by a core whose own caches hold what the inner loops share; nothing where none is clearly better than the order
/// given.
std::optional<std::vector<size_t>> order_of_walks(const Device& device, const LoopNest& nest);

/// The same where only the loops `moved` among the outer ones change their places, each to any further out, and of
/// windows further in too. Where loads have time to wait for the second cache, fewer lines of that are no reason.
std::optional<std::vector<size_t>> order_of_tiles(const Device& device, const LoopNest& nest,
                                                  const std::vector<size_t>& moved);

/// The loops of `reader`, which stores what tiles of `reduction` hold, that are around the tiles, in such an order;
/// nothing also where an extent or a stride is no constant. `matched` are the reader's loops for iters of the
/// reduction.
std::optional<std::vector<LoopRef>> order_around_tiles(const RuleContext& context, const BlockRef& reduction,
                                                       const BlockRef& reader,
                                                       const std::vector<std::pair<size_t, LoopRef>>& matched,
                                                       const std::vector<LoopRef>& around);

/// A loop of the reader that is to be split into tiles of so many iterations.
struct TiledLoop {
  LoopRef loop;
  std::int64_t size;
};

/// The same for the order of loops over tiles among the others: of `around`, those in `tiles` stand for the loop over
/// tiles that splitting them leaves around, and may go further out.
std::optional<std::vector<LoopRef>> order_of_tiles(const RuleContext& context, const BlockRef& reduction,
                                                   const BlockRef& reader,
                                                   const std::vector<std::pair<size_t, LoopRef>>& matched,
                                                   const std::vector<LoopRef>& around,
                                                   const std::vector<TiledLoop>& tiles, bool in_windows);

}  // namespace lathe
