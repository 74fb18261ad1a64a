#include "schedule/auto/turn_squares.h"

#include <algorithm>

#include "ir/passes/mark_shiftable_tiles.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr std::int64_t square_bits = 256;

std::int64_t rounded_up(std::int64_t extent, std::int64_t step) {
  return (extent + step - 1) / step * step;
}

/// Splits the loop; the last tile is moved back to where it is whole.
std::pair<LoopRef, LoopRef> split_shifted(Schedule& schedule, const LoopRef& loop, std::int64_t step) {
  const std::int64_t extent = *as_int(schedule.node(loop).extent);
  const auto parts = split(schedule, loop, step);
  if (extent % step != 0) annotate(schedule, parts.first, shift_last_key, 1);
  return parts;
}

/// As many squares as leave the fewest columns to be walked twice: neighbouring lines are written, and pages changed
/// less often.
std::int64_t squares_beside(std::int64_t columns, std::int64_t side, const SquareGroup& group) {
  std::int64_t best = group.most;
  for (std::int64_t squares = best - 1; squares >= group.fewest; --squares) {
    if (rounded_up(columns, squares * side) < rounded_up(columns, best * side)) best = squares;
  }
  return best;
}

}  // namespace

std::int64_t widest_square(const Block& block, const Device& device) {
  const std::int64_t most = std::min<std::int64_t>(square_bits / widest_bits(block), vector_lanes(block, device));
  for (const std::int64_t side : square_sides) {
    if (side <= most) return side;
  }
  return 1;
}

bool lies_along(const std::vector<Access>& accesses, size_t iter, bool store) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const std::int64_t step = access.strides[iter].value_or(0);
    return access.store == store && (step == 1 || (step == -1 && !store)) && !access.masked;
  });
}

LoopRef turn_squares(Schedule& schedule, std::vector<LoopRef> loops, const LoopRef& across, const LoopRef& along,
                     std::int64_t side, const SquareGroup& group) {
  std::erase(loops, across);
  std::erase(loops, along);
  loops.insert(loops.end(), {along, across});
  reorder(schedule, loops);
  const std::int64_t width = *as_int(schedule.node(across).extent);
  const auto [rows, row] = split_shifted(schedule, along, side);
  std::vector<LoopRef> order{rows};
  LoopRef in_columns = across;
  if (width > group.most * side) {
    const auto [columns, within] = split_shifted(schedule, across, squares_beside(width, side, group) * side);
    order.insert(order.begin(), columns);
    in_columns = within;
  }
  const auto [square, lane] = split_shifted(schedule, in_columns, side);
  order.insert(order.end(), {square, row, lane});
  reorder(schedule, order);
  unroll(schedule, row);
  vectorize(schedule, lane);
  return rows;
}

}  // namespace lathe
