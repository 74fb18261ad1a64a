#include "schedule/auto/nearer_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/buffer.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reach.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"

namespace lathe {
namespace {

/// How much longer a tile of rows that lie near may take than one of rows that do not.
constexpr double slower_near_rows = 1.3;
/// Lines of a piece that is short, and how much longer others are to be (measured on Zen 4: 12 rows by 272 steps in
/// pieces of 68 bytes, in one piece of 13 KB 0.44 of the time, with AVX2 0.27; for pieces of 1 KB, with AVX2, 7 rows in
/// one piece took 1.3).
constexpr double short_lines = 4, times_longer = 4;
/// Loads of a tile for each store that may then go farther than before (the same: stores of 12 floats for rows of 16
/// steps took 1.12, of 2 for 17 steps 0.69).
constexpr std::int64_t loads_of_far_store = 4;

/// The steps of the reduction; nothing where there are none, or they are known at run time alone.
std::optional<std::int64_t> steps_of(const Block& reduction, const ReductionShape& shape) {
  std::int64_t steps = 1;
  for (const size_t i : shape.reduce) steps *= constant_extent(reduction, i).value_or(0);
  return steps > 0 ? std::optional(steps) : std::nullopt;
}

/// The bytes of a piece of neighbours among what the rows read in all steps.
double piece_bytes(const Block& reduction, const ReductionShape& shape, const Access& access, size_t rows,
                   double line_bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> walked;
  const auto add = [&](size_t i) {
    const std::int64_t extent = constant_extent(reduction, i).value_or(1);
    if (access.distances[i] != 0 && extent > 1) walked.emplace_back(access.distances[i], extent);
  };
  add(rows);
  for (const size_t i : shape.reduce) add(i);
  return reach_of(std::move(walked), access.buffer->dtype.bytes(), line_bytes).piece_bytes;
}

}  // namespace

std::optional<size_t> nearer_rows(const RuleContext& context, const Block& reduction, const ReductionShape& shape,
                                  size_t vectors) {
  if (!shape.rows || shape.row_run > 0 || shape.column_run > 0 || context.device.caches.empty()) return std::nullopt;
  const Accesses accesses = block_accesses(reduction);
  const CacheLevel& near = context.device.caches.front();
  // What the lanes share, and goes a line further with each row.
  const auto is_far = [&](const Access& access, size_t rows) {
    const std::int64_t bytes = access.buffer->dtype.bytes();
    return !access.store && access.strides[vectors] == 0 && access.distances[rows] * bytes >= near.line_bytes &&
           estimated_elements(access.buffer) * static_cast<double>(bytes) > static_cast<double>(near.bytes);
  };
  const auto far = [&](size_t rows) {
    return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) { return is_far(access, rows); });
  };
  if (!far(*shape.rows)) return std::nullopt;
  const auto columns = constant_extent(reduction, vectors), present = constant_extent(reduction, *shape.rows);
  if (!columns || !present) return std::nullopt;
  const auto tile_of = [&](std::int64_t rows) {
    const std::int64_t lanes = vector_lanes(reduction, context.device);
    return choose_tile(context.device, lanes, widest_bits(reduction), {rows, columns, std::nullopt});
  };
  const RegisterTile tile = tile_of(*present);
  const auto is_as_fast = [&](std::int64_t rows) {
    return 2 * rows >= tile.rows && tile_of(rows).cycles / static_cast<double>(rows) <=
                                        slower_near_rows * tile.cycles / static_cast<double>(*present);
  };
  const std::optional<std::int64_t> steps = steps_of(reduction, shape);
  const auto stores_near = [&](const Access& access, size_t rows) {
    return loads_of_far_store * *columns <= *steps || access.distances[rows] <= access.distances[*shape.rows];
  };
  // Does the operand lie in one piece along these rows, and in short ones along the shape's?
  const auto goes_on = [&](size_t rows) {
    return steps && std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
             if (access.store) return stores_near(access, rows);
             if (!is_far(access, rows)) return true;
             const double line = near.line_bytes, given = piece_bytes(reduction, shape, access, *shape.rows, line);
             return given < short_lines * line &&
                    piece_bytes(reduction, shape, access, rows, line) >= times_longer * given;
           });
  };
  std::optional<size_t> best;
  std::int64_t most = 0;
  for (const size_t i : shape.space) {
    const auto extent = constant_extent(reduction, i);
    if (i == vectors || i == *shape.rows || !extent || *extent < 2 || (far(i) && !goes_on(i))) continue;
    const bool alike = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return access.masked || !access.strides[i]
                 ? false
                 : access.store || (access.strides[i] == 0) == (access.strides[*shape.rows] == 0);
    });
    if (!alike || *extent <= most || !is_as_fast(*extent)) continue;
    best = i;
    most = *extent;
  }
  return best;
}

}  // namespace lathe
