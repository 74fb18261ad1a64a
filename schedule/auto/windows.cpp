#include "schedule/auto/windows.h"

#include <algorithm>
#include <set>

#include "schedule/auto/tile_operands.h"

namespace lathe {
namespace {

/// Steps of all iters together up to which a tile takes them in one body: of 9x9 two rows by one vector take as long as
/// a row by four in a loop, with AVX2 1.6 times as long.
constexpr std::int64_t most_steps = 64;
constexpr std::int64_t few_rows = 4;

std::int64_t steps_of(const Block& reduction, const ReductionShape& shape) {
  std::int64_t steps = 1;
  for (const size_t i : shape.reduce) {
    const std::int64_t extent = constant_extent(reduction, i).value_or(most_steps + 1);
    steps = std::min(steps * extent, most_steps + 1);
  }
  return steps;
}

}  // namespace

std::int64_t Windows::loads(std::int64_t row_count) const {
  std::set<std::int64_t> places;
  for (std::int64_t r = 0; r < row_count; ++r) {
    for (std::int64_t k = 0; k < count; ++k) places.insert(r * row_stride + k * step_stride);
  }
  return static_cast<std::int64_t>(places.size()) + own * row_count * count;
}

std::optional<Windows> overlapping_windows(const RuleContext& context, const Block& reduction,
                                           const ReductionShape& shape, size_t vectors) {
  if (shape.rows || shape.row_run > 0 || shape.column_run > 0 || steps_of(reduction, shape) > most_steps)
    return std::nullopt;
  std::vector<Access> walked;
  double bytes = 0;
  for (const Access& access : block_accesses(reduction)) {
    if (access.strides[vectors] == 0) continue;
    if (access.strides[vectors] != 1) return std::nullopt;
    if (access.store) bytes += estimated_elements(access.buffer) * access.buffer->dtype.bytes();
    if (access.store || access.buffer == reduction.f.writes[0].buffer) continue;
    bytes += estimated_elements(access.buffer) * access.buffer->dtype.bytes();
    walked.push_back(access);
  }
  std::int64_t results = 1;
  for (const size_t i : shape.space) results *= constant_extent(reduction, i).value_or(1);
  std::optional<Windows> best;
  for (const Access& access : walked) {
    for (const size_t rows : shape.space) {
      const std::int64_t all_rows = constant_extent(reduction, rows).value_or(1);
      if (rows == vectors || all_rows < 2) continue;
      for (const size_t steps : shape.reduce) {
        const auto row_stride = access.strides[rows], step_stride = access.strides[steps];
        if (row_stride.value_or(0) == 0 || step_stride.value_or(0) == 0) continue;
        Windows found;
        found.rows = rows;
        found.steps = steps;
        found.count = *constant_extent(reduction, steps);
        found.row_stride = *row_stride;
        found.step_stride = *step_stride;
        found.own = static_cast<std::int64_t>(walked.size()) - 1;
        found.times = results / all_rows / constant_extent(reduction, vectors).value_or(1);
        found.far = own_cache(context.device) && exceeds_caches(context.device, bytes);
        // A few rows, as those next to each other share nothing where steps are dilated.
        const std::int64_t apart = few_rows * found.loads(1), loads = found.loads(few_rows);
        if (loads < apart && (!best || loads * best->loads(1) < best->loads(few_rows) * found.loads(1))) best = found;
      }
    }
  }
  return best;
}

}  // namespace lathe
