#pragma once
#include <cstdint>
#include <vector>

#include "ir/device.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"
#include "schedule/schedule.h"

namespace lathe {

/// The extent, filled up to whole steps.
inline std::int64_t rounded_up(std::int64_t extent, std::int64_t step) {
  return (extent + step - 1) / step * step;
}

/// Lanes of squares, the widest first.
inline constexpr std::int64_t square_sides[] = {8, 4};

/// Cycles that an element takes to be turned around in squares where the second cache holds what is read and written
/// (measured on Cascade Lake: 768 x 768 by panels 0.4).
inline constexpr double near_square_cycles = 0.5;
/// The same where what is read or written lies further away.
inline constexpr double far_turn_cycles = 1.5;

/// The widest square of the block's elements; 1 when there is none. Shuffles of 256 bits run at full rate everywhere.
std::int64_t widest_square(const Block& block, const Device& device);

/// Does a load without a mask, forwards or backwards, or a store, lie along the iter?
bool lies_along(const std::vector<Access>& accesses, size_t iter, bool store);

/// How many squares lie side by side below the loop over rows of them: a power of two from `fewest` to `most`, as the
/// width allows.
struct SquareGroup {
  std::int64_t fewest = 1, most = 1;
};

/// Parts of the loop along, one for each core or nearly so, where squares side by side are pieces of rows that are
/// written: a core that writes pieces beside another's takes lines away from it, also those that prefetchers go on into
/// (measured on Zen 4 for 256x128 to 1000x1000 on two threads: columns shared out take 1.2 to 3 times as long, on two
/// chiplets 3 to 6 times; a part a core takes 0.9 to 1.1 on one thread). 1 where other loops give all cores something
/// to do, and what stays on one thread.
std::int64_t parts_of_cores(const RuleContext& context, const Block& block, const std::vector<LoopRef>& loops,
                            const LoopRef& across, const LoopRef& along, std::int64_t side, const SquareGroup& group);

/// Tiles the loops `across` and `along` of an element-wise block, two of `loops`, which are its own: squares of `side`
/// unrolled rows along, and vectors of `side` lanes across, which `transpose_loads` reads by rows where a load is
/// contiguous along. The last squares are moved back over those before them where a side is no multiple
/// (mark_shiftable_tiles), so that all are alike: one body to compile, and no element goes alone. Both extents are
/// constants of at least `side`, that of `across` of at least `fewest` times that. With several `parts`, a loop over
/// these lies outside of all squares. Returns the loop over squares along.
LoopRef turn_squares(Schedule& schedule, std::vector<LoopRef> loops, const LoopRef& across, const LoopRef& along,
                     std::int64_t side, const SquareGroup& group, std::int64_t parts = 1);

/// The same of groups of neighbours that stay together, as bytes of a word do: `within` is the loop over those of a
/// group, and vectors have as many times more lanes.
LoopRef turn_grouped_squares(Schedule& schedule, std::vector<LoopRef> loops, const LoopRef& across,
                             const LoopRef& along, const LoopRef& within, std::int64_t side, const SquareGroup& group);

/// The widest square of groups of so many bits with these extents; 1 when there is none.
std::int64_t widest_square(std::int64_t bits, std::int64_t rows, std::int64_t columns, const Device& device);

}  // namespace lathe
