#pragma once
/// Loads that lie across the vectors of an element-wise block: transposes, which squares in registers turn around.
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/turn_squares.h"

namespace lathe {

/// The loop along which a load is contiguous that lies across the vectors of another.
struct Turned {
  size_t along;
  std::int64_t side;
  SquareGroup group;
};

/// That of fewest cycles of `loops`, which move `iters`, for vectors of the loop at `vector`; nothing when no square
/// fits.
std::optional<Turned> turned_loop(const RuleContext& context, const Block& block, const std::vector<Access>& accesses,
                                  const std::vector<LoopRef>& loops, const std::vector<size_t>& iters, size_t vector);

/// Squares that walk across rows far apart read more streams at once than hardware follows: of arrays that are much
/// larger than a core's own caches, they ask for the lines behind those they read (measured on Zen 4: 64x3136 turned
/// around takes 0.8 of the time, 256x10000 0.6; 700x900, just larger than these caches, 1.1).
void prefetch_turned(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses, size_t along,
                     size_t across);

}  // namespace lathe
