#include "schedule/auto/windows.h"

#include <algorithm>
#include <vector>

#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/tile_operands.h"

namespace lathe {
namespace {

/// Rows of which some share elements even where steps are dilated, and the part of their elements up to which they
/// share enough (Zen 4, 3x3 by 2 over 112x112, 0.75 of them: 0.96 of the time, with AVX2 1.2).
constexpr size_t few_rows = 4;
constexpr double most_loaded = 0.7;
/// The same where the rows share weights, of which each lane has its own (Zen 4, channels last, 3x3 by 2 over 28 to 112
/// columns: 0.87 to 0.95 of the time of tiles that take a step at a time).
constexpr double most_loaded_beside = 0.8;

std::int64_t steps_of(const Block& reduction, const ReductionShape& shape) {
  std::int64_t steps = 1;
  for (const size_t i : shape.reduce) {
    const std::int64_t extent = constant_extent(reduction, i).value_or(most_window_steps + 1);
    steps = std::min(steps * extent, most_window_steps + 1);
  }
  return steps;
}

/// Is a function what a term takes longest for? It would be compiled for each update (exponentials of 3x3 over 56x56
/// take as long row by row, and half as long to compile).
bool computes_functions(const Block& reduction) {
  bool found = false;
  for_each_expr(reduction.f.body, [&](const Expr& e) {
    if (const Unary* node = e.as<Unary>()) {
      found |= expression_cost(e) - expression_cost(node->a) >= costly_body;
    } else if (const Binary* node = e.as<Binary>()) {
      found |= expression_cost(e) - expression_cost(node->a) - expression_cost(node->b) >= costly_body;
    }
  });
  return found;
}

/// Of the elements that so many rows read apart from each other, the part that they read together.
double loaded_part(const Windows& windows) {
  return static_cast<double>(windows.loads[few_rows]) / static_cast<double>(few_rows * windows.loads[1]);
}

}  // namespace

std::optional<Windows> overlapping_windows(const RuleContext& context, const Block& reduction,
                                           const ReductionShape& shape, size_t vectors) {
  const std::int64_t depth = steps_of(reduction, shape);
  if (shape.row_run > 0 || shape.column_run > 0 || depth > most_window_steps || computes_functions(reduction))
    return std::nullopt;
  std::vector<Access> walked;
  for (const Access& access : block_accesses(reduction)) {
    const std::optional<std::int64_t> along = access.strides[vectors];
    if (along == 0 && !shape.rows) continue;
    if (along != 1) return std::nullopt;
    if (!access.store && access.buffer != reduction.f.writes[0].buffer) walked.push_back(access);
  }
  const double bytes = bytes_of_buffers({&reduction}, context.schedule.func()->facts);
  std::int64_t results = 1;
  for (const size_t i : shape.space) results *= constant_extent(reduction, i).value_or(1);
  const double most = shape.rows ? most_loaded_beside : most_loaded;
  const std::int64_t row_elements = constant_extent(reduction, vectors).value_or(1);
  const std::int64_t line_bytes = context.device.caches.empty() ? 1 : context.device.caches.front().line_bytes;
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
        found.depth = depth;
        found.images = results / all_rows / row_elements;
        found.lane_weights = shape.rows.has_value();
        found.masked = found.lane_weights && access.masked;
        found.whole_lines = found.lane_weights && row_elements * access.buffer->dtype.bytes() % line_bytes == 0;
        // Steps that lie one behind the other, as pixels of several channels, are read as they come.
        found.far = own_cache(context.device) && exceeds_caches(context.device, bytes) &&
                    !(found.lane_weights && *step_stride == row_elements);
        const auto shared =
            std::count_if(walked.begin(), walked.end(), [&](const Access& other) { return other.strides[rows] == 0; });
        count_loads(found, *row_stride, *step_stride, static_cast<std::int64_t>(walked.size()) - 1 - shared);
        const auto rank = [](const Windows& windows) { return std::pair(windows.far, loaded_part(windows)); };
        if (loaded_part(found) < most && (!best || rank(found) < rank(*best))) best = found;
      }
    }
  }
  return best;
}

}  // namespace lathe
