#include "schedule/auto/turn_squares.h"

#include "schedule/primitives/partition.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {

LoopRef turn_squares(Schedule& schedule, std::vector<LoopRef> loops, LoopRef across, LoopRef along, std::int64_t side,
                     const SquareGroup& group) {
  std::erase(loops, across);
  std::erase(loops, along);
  loops.insert(loops.end(), {along, across});
  reorder(schedule, loops);
  const auto whole = [&](const LoopRef& loop, std::int64_t step) {
    const std::int64_t extent = *as_int(schedule.node(loop).extent);
    return extent % step == 0 ? loop : partition(schedule, loop, extent / step * step).first;
  };
  along = whole(along, side);
  reorder(schedule, {across, along});
  across = whole(across, group.fewest * side);
  // As many squares as divide the width: neighbouring lines are written, and pages changed less often.
  const std::int64_t count = *as_int(schedule.node(across).extent) / side;
  std::int64_t squares = group.most;
  while (count % squares != 0) squares /= 2;
  const auto [columns, in_columns] = split(schedule, across, squares * side);
  const auto [rows, row] = split(schedule, along, side);
  const auto [square, lane] = split(schedule, in_columns, side);
  reorder(schedule, {columns, rows, square, row, lane});
  unroll(schedule, row);
  vectorize(schedule, lane);
  return rows;
}

}  // namespace lathe
