#include "schedule/auto/turn_squares.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "ir/passes/mark_shiftable_tiles.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/parallel_outer.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr std::int64_t square_bits = 256;
/// Squares along a part at the least, which read on in the same rows; and how much longer than an even share a part of
/// whole squares may be.
constexpr std::int64_t least_of_part = 4;
constexpr double most_uneven = 1.25;

/// The length of one of so many parts, or fewer, which are of whole squares.
std::int64_t part_of(std::int64_t length, std::int64_t parts, std::int64_t side) {
  return rounded_up((length + parts - 1) / parts, side);
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

/// The longest side of a square that is no longer than `most`; 1 where there is none.
std::int64_t widest_side(std::int64_t most) {
  for (const std::int64_t side : square_sides) {
    if (side <= most) return side;
  }
  return 1;
}

/// Lays squares over `loops`, of groups of neighbours where there is a loop over these.
LoopRef lay_squares(Schedule& schedule, std::vector<LoopRef> loops, const LoopRef& across, const LoopRef& along,
                    const std::optional<LoopRef>& within, std::int64_t side, const SquareGroup& group,
                    std::int64_t parts) {
  std::erase(loops, across);
  std::erase(loops, along);
  if (within) std::erase(loops, *within);
  loops.insert(loops.end(), {along, across});
  if (within) loops.push_back(*within);
  reorder(schedule, loops);
  const std::int64_t width = *as_int(schedule.node(across).extent), length = *as_int(schedule.node(along).extent);
  std::optional<LoopRef> part;
  LoopRef in_part = along;
  if (parts > 1) std::tie(part, in_part) = split(schedule, along, part_of(length, parts, side));
  const auto [rows, row] = split_shifted(schedule, in_part, side);
  if (part && length % side != 0) annotate(schedule, rows, shift_last_key, 1);
  std::vector<LoopRef> order{rows};
  LoopRef in_columns = across;
  if (width > group.most * side) {
    const auto [columns, in_group] = split_shifted(schedule, across, squares_beside(width, side, group) * side);
    order.insert(order.begin(), columns);
    in_columns = in_group;
  }
  const auto [square, lane] = split_shifted(schedule, in_columns, side);
  if (part) order.insert(order.begin(), *part);
  order.insert(order.end(), {square, row, lane});
  if (within) order.push_back(*within);
  reorder(schedule, order);
  unroll(schedule, row);
  vectorize(schedule, within ? fuse(schedule, lane, *within) : lane);
  return rows;
}

}  // namespace

std::int64_t widest_square(const Block& block, const Device& device) {
  return widest_side(std::min<std::int64_t>(square_bits / widest_bits(block), vector_lanes(block, device)));
}

bool lies_along(const std::vector<Access>& accesses, size_t iter, bool store) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const std::int64_t step = access.strides[iter].value_or(0);
    return access.store == store && (step == 1 || (step == -1 && !store)) && !access.masked;
  });
}

std::int64_t parts_of_cores(const RuleContext& context, const Block& block, const std::vector<LoopRef>& loops,
                            const LoopRef& across, const LoopRef& along, std::int64_t side, const SquareGroup& group) {
  const Schedule& schedule = context.schedule;
  const std::vector<Fact>& facts = schedule.func()->facts;
  if (shuffled_nanoseconds(block, facts) * instance_count(block, facts) < shared_nanoseconds) return 1;
  const std::int64_t cores = context.device.cores, width = *as_int(schedule.node(across).extent),
                     length = *as_int(schedule.node(along).extent);
  std::int64_t others = 1;
  for (const LoopRef& loop : loops) {
    if (!(loop == across) && !(loop == along)) others *= extent_estimate(schedule.node(loop).extent, facts);
  }
  // The last part is shorter, and its last square stays within it.
  const std::int64_t part = part_of(length, cores, side), last = length - (length - 1) / part * part;
  const bool whole_rows = width <= group.most * side,
             short_parts =
                 part < least_of_part * side ||
                 last<side, uneven = static_cast<double>(part * cores)> most_uneven * static_cast<double>(length);
  return others >= cores || whole_rows || short_parts || uneven ? 1 : cores;
}

LoopRef turn_squares(Schedule& schedule, std::vector<LoopRef> loops, const LoopRef& across, const LoopRef& along,
                     std::int64_t side, const SquareGroup& group, std::int64_t parts) {
  return lay_squares(schedule, std::move(loops), across, along, std::nullopt, side, group, parts);
}

LoopRef turn_grouped_squares(Schedule& schedule, std::vector<LoopRef> loops, const LoopRef& across,
                             const LoopRef& along, const LoopRef& within, std::int64_t side, const SquareGroup& group) {
  return lay_squares(schedule, std::move(loops), across, along, within, side, group, 1);
}

std::int64_t widest_square(std::int64_t bits, std::int64_t rows, std::int64_t columns, const Device& device) {
  return widest_side(std::min({std::min<std::int64_t>(square_bits, device.vector_bits) / bits, rows, columns}));
}

}  // namespace lathe
