#include "schedule/auto/turned_loop.h"

#include <algorithm>
#include <cmath>

#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/annotate.h"

namespace lathe {
namespace {

/// A square that is turned around in registers: vectors of half the widest registers, whose shuffles run at full rate
/// everywhere, and few enough that rows and columns fit the register file together.
constexpr std::int64_t square_bits = 256, most_lanes_turned = 8, fewest_lanes_turned = 4;
/// Side by side, so that whole lines are written, where there are enough columns.
constexpr SquareGroup lines_of_squares{2, 8}, few_squares{1, 8};
/// Cycles of an element by squares of the wider and the narrower side.
constexpr double wide_square = 0.75, narrow_square = 0.9;
/// Bytes ahead in the rows that squares are turned out of: a few lines, which the second cache has room for.
constexpr std::int64_t turned_ahead = 256;
constexpr std::int64_t far_apart = 1024;
constexpr double much_larger = 4;

}  // namespace

std::optional<Turned> turned_loop(const RuleContext& context, const Block& block, const std::vector<Access>& accesses,
                                  const std::vector<LoopRef>& loops, const std::vector<size_t>& iters, size_t vector) {
  const Schedule& schedule = context.schedule;
  const std::int64_t widest_side = std::min<std::int64_t>(
      {square_bits / widest_bits(block), vector_lanes(block, context.device), most_lanes_turned});
  const auto extent_of = [&](size_t i) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    return extent ? *extent : 0;
  };
  std::optional<Turned> best;
  double least = 0;
  for (size_t i = loops.size(); i-- > 0;) {
    if (i == vector) continue;
    for (std::int64_t side = widest_side; side >= fewest_lanes_turned; side /= 2) {
      const std::int64_t rows = extent_of(i), columns = extent_of(vector);
      if (rows < side || columns < side) continue;
      const bool turned = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        const std::int64_t along = std::abs(access.strides[iters[i]].value_or(0));
        const auto& across = access.strides[iters[vector]];
        const bool apart = across ? std::abs(*across) >= side * along : access.is_steady(iters[vector]);
        return !access.store && !access.masked && along >= 1 && along <= most_shuffled_stride && apart;
      });
      if (!turned) continue;
      // The last squares lie over those before them.
      const double squares = std::ceil(static_cast<double>(rows) / static_cast<double>(side)) *
                             std::ceil(static_cast<double>(columns) / static_cast<double>(side)),
                   places = squares * static_cast<double>(side * side) /
                            (static_cast<double>(rows) * static_cast<double>(columns)),
                   cycles = places * (side == most_lanes_turned ? wide_square : narrow_square);
      if (best && cycles >= least) continue;
      best = {i, side, columns >= lines_of_squares.fewest * side ? lines_of_squares : few_squares};
      least = cycles;
    }
  }
  return best;
}

void prefetch_turned(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses, size_t along,
                     size_t across) {
  Schedule& schedule = context.schedule;
  const auto near = static_cast<double>(own_cache_bytes(context.device));
  for (const Access& access : accesses) {
    const std::int64_t bytes = access.buffer->dtype.bytes();
    if (access.store || access.strides[along] != 1 || near == 0 || access.distances[across] * bytes < far_apart ||
        estimated_elements(access.buffer) * static_cast<double>(bytes) <= much_larger * near)
      continue;
    const std::vector<LoopRef> loops = schedule.loops(ref);
    const LoopRef& squares = loops[loops.size() - 3];
    annotate(schedule, squares, "prefetch_offset", turned_ahead / bytes);
    annotate(schedule, squares, "prefetch_cache", 2);
    return;
  }
}

}  // namespace lathe
