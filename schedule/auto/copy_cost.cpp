#include "schedule/auto/copy_cost.h"

#include <algorithm>

#include "schedule/auto/turn_squares.h"

namespace lathe {
namespace {

/// Cycles of an element that is copied: as it lies, besides what each run takes; through squares that are turned around
/// in registers, and more along joined axes; one by one.
constexpr double run_cycles = 0.2, each_run = 3, square_cycles = 0.75, joined_cycles = 0.25, single_cycles = 3;

/// Cycles of an element of so many rows and columns that are turned around by squares; the last ones lie over others.
double turn_cycles(std::int64_t rows, std::int64_t columns) {
  double least = single_cycles;
  for (const std::int64_t side : square_sides) {
    if (rows < side || columns < side) continue;
    const auto walked = static_cast<double>(rounded_up(rows, side) * rounded_up(columns, side));
    least = std::min(least, square_cycles * walked / static_cast<double>(rows * columns));
  }
  return least;
}

/// Axes that are walked as one: how often, and the elements from one to the next.
struct Run {
  std::int64_t extent, stride;
  bool joined = false;  ///< of axes in several groups
};

/// Neighbours of a group that lie as one are one, and so are groups but the last with a short one behind, whose loops
/// squares have joined (join_short_turned).
std::vector<Run> runs_of(const Walked& access, const std::vector<Axes>& groups, const Product& product) {
  std::vector<Run> runs;
  for (const Axes& group : groups) {
    const bool joins = group.size() == 1 && product.count(group) < square_sides[0] && &group != &groups.back();
    for (size_t i = 0; i < group.size(); ++i) {
      const std::int64_t extent = product.extents[group[i]], stride = access.strides[group[i]];
      if ((i > 0 || (joins && !runs.empty())) && runs.back().stride == stride * extent) {
        runs.back() = {runs.back().extent * extent, stride, runs.back().joined || i == 0};
      } else {
        runs.push_back({extent, stride});
      }
    }
  }
  return runs;
}

}  // namespace

double copy_cycles(const Walked& access, const std::vector<Axes>& groups, const Product& product, bool result) {
  const std::vector<Run> runs = runs_of(access, groups, product);
  if (runs.empty()) return single_cycles;
  const Run last = runs.back();
  const auto picked = [](std::int64_t step) { return picked_cycles * static_cast<double>(step - 1); };
  const auto is_step = [](std::int64_t stride) { return stride >= 1 && stride <= widest_step; };
  if (last.stride == 1 || (is_step(last.stride) && !result))
    return run_cycles + picked(last.stride) + each_run / static_cast<double>(last.extent);
  double least = single_cycles;
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    const Run& run = runs[i];
    if (!is_step(run.stride) || (result && run.stride != 1)) continue;
    least =
        std::min(least, turn_cycles(run.extent, last.extent) + picked(run.stride) + (run.joined ? joined_cycles : 0));
    // Few neighbours are picked out of vectors, or woven into them.
    const bool few = result ? last.stride == run.extent : i + 2 == runs.size() && last.extent <= widest_step;
    const std::int64_t count = result ? run.extent : last.extent, length = result ? last.extent : run.extent;
    if (few && count <= widest_step)
      least = std::min(least, run_cycles + picked(count) + each_run / static_cast<double>(length));
  }
  return least;
}

}  // namespace lathe
