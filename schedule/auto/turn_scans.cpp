#include "schedule/auto/turn_scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/drop_result.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Fewer steps are combined in less time one by one than rows are turned around.
constexpr std::int64_t fewest_steps = 8;
/// Vectors of rows from which on they are turned around where there are no masks, and where the last is not whole; and
/// the bits of a vector (measured on Zen 4 with AVX2, segmented sums of 7 and 15 rows of doubles 1.6 to 1.9 of the
/// time, of 4 1.4; with SSE2, which selects by three instructions, 1.2 to 3).
constexpr std::int64_t few_vectors = 2, many_vectors = 8;
constexpr int least_bits = 256;

/// The iters of a scan along its rows and across them, the lanes that rows fill, and what is to be turned around.
struct Rows {
  size_t along, across;
  std::int64_t lanes;
  std::vector<Buffer> operands;
};

/// The operands that lie along the rows; nothing where one lies in a way that is not turned around.
std::optional<std::vector<Buffer>> turned_operands(const Block& block, const Accesses& accesses, size_t along,
                                                   size_t across) {
  std::vector<Buffer> turned;
  for (const Access& access : accesses) {
    if (access.store || writes(block, access.buffer)) continue;
    const auto by_step = access.strides[along], by_row = access.strides[across];
    if (!by_step || !by_row) return std::nullopt;
    if (*by_row == 0 || *by_row == 1) continue;
    const Load* load = load_of(block, access.buffer);
    if (!load || dimension_walked(block, *load, across) == load->indices.size()) return std::nullopt;
    if (std::find(turned.begin(), turned.end(), access.buffer) == turned.end()) turned.push_back(access.buffer);
  }
  return turned;
}

/// Is each place of a buffer in which the block moves along `across` that iter itself, in the same dimension?
bool walks_alike(const Block& block, const Buffer& buffer, size_t across) {
  std::optional<size_t> dimension;
  bool alike = true;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || load->buffer != buffer) return;
    const size_t found = dimension_walked(block, *load, across);
    alike &= found < load->indices.size() && (!dimension || dimension == found);
    dimension = found;
  });
  return alike;
}

/// Are rows enough, or whole vectors of them, that a vector of their elements takes less than these one by one? With
/// masks two are (measured on Zen 4, linear recurrences of 48,000 floats in 2 to 7 rows: 0.33 to 0.8 of the time).
/// Without masks what is left over is branches, or lanes blended by hand.
bool fills_lanes(const Device& device, std::int64_t lanes, std::int64_t rows) {
  if (device.vector_bits < least_bits) return false;
  if (device.mask_registers > 0) return rows >= std::min<std::int64_t>(lanes / 2, 2);
  return rows >= few_vectors * lanes && (rows % lanes == 0 || rows >= many_vectors * lanes);
}

/// The rows of a block that walks them along its one iter of that kind, and whose results go on by `step` from one of
/// the walk to the next.
std::optional<Rows> find_rows(const RuleContext& context, const Block& block, IterKind kind, std::int64_t step) {
  if (block.f.predicate) return std::nullopt;
  const Accesses accesses = block_accesses(block);
  const auto store = std::find_if(accesses.begin(), accesses.end(), [](const Access& access) { return access.store; });
  std::optional<size_t> along, across;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == IterKind::space) continue;
    if (along || block.f.iters[i].kind != kind || constant_extent(block, i).value_or(0) < fewest_steps)
      return std::nullopt;
    along = i;
  }
  if (!along || store == accesses.end() ||
      !std::all_of(accesses.begin(), accesses.end(),
                   [&](const Access& access) { return !access.store || access.strides == store->strides; }) ||
      store->strides[*along] != step)
    return std::nullopt;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::int64_t apart = store->strides[i].value_or(0);
    const bool rows = block.f.iters[i].kind == IterKind::space && (step == 0 ? apart == 1 : apart > 1);
    if (rows && (!across || constant_extent(block, i).value_or(0) > constant_extent(block, *across).value_or(0)))
      across = i;
  }
  const std::int64_t lanes = vector_lanes(block, context.device);
  if (!across) return std::nullopt;
  const auto operands = turned_operands(block, accesses, *along, *across);
  if (!operands || !std::all_of(operands->begin(), operands->end(),
                                [&](const Buffer& buffer) { return walks_alike(block, buffer, *across); }))
    return std::nullopt;
  if (!fills_lanes(context.device, lanes, constant_extent(block, *across).value_or(0))) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(constant_extent(block, *across).value_or(0))));
  // Of fewer rows than lanes each step of a fold is too short to make up for squares that are not whole.
  if (step == 0 && whole < lanes && whole != constant_extent(block, *across).value_or(0)) return std::nullopt;
  const std::int64_t over = constant_extent(block, *across).value_or(0) - whole;
  const bool fills = step != 0 && context.device.mask_registers > 0 && 2 * over >= whole;
  const Rows rows{*along, *across, std::min(lanes, fills ? 2 * whole : whole), *operands};
  const auto arrays = static_cast<std::int64_t>(operands->size() + (step == 0 ? 0 : block.f.writes.size()));
  const std::int64_t group = arrays * rows.lanes * constant_extent(block, *along).value_or(0) * widest_bits(block) / 8;
  const bool near = context.device.caches.empty() || group <= context.device.caches.back().bytes / context.device.cores;
  return near ? std::optional(rows) : std::nullopt;
}

/// The dimension of the buffer that rows are in.
size_t row_dimension(const Block& block, const Buffer& buffer, size_t across) {
  for (const Region& written : block.f.writes) {
    if (written.buffer == buffer) return dimension_of(written, block, across).value_or(buffer->rank());
  }
  return dimension_walked(block, *load_of(block, buffer), across);
}

/// Lays what the block reads or writes of a buffer out with the rows last.
void lay_rows_last(Schedule& schedule, const BlockRef& ref, const Buffer& buffer, size_t across) {
  const size_t dimension = row_dimension(schedule.node(ref), buffer, across);
  transform_layout(schedule, ref, buffer->name, moved_last(buffer->rank(), dimension));
}

/// Has the block read copies of the operands in which rows lie side by side.
std::vector<BlockRef> turn_operands_of(Schedule& schedule, const BlockRef& ref, const Rows& rows) {
  std::vector<BlockRef> copies;
  for (const Buffer& operand : rows.operands) {
    copies.push_back(cache_read(schedule, ref, operand->name, space::global));
    lay_rows_last(schedule, ref, schedule.node(copies.back()).f.writes[0].buffer, rows.across);
  }
  return copies;
}

void turn(Schedule& schedule, const BlockRef& ref, const Rows& rows) {
  std::vector<BlockRef> back;
  const std::vector<Region> results = schedule.node(ref).f.writes;
  for (const Region& result : results) back.push_back(cache_write(schedule, ref, space::global, result.buffer->name));
  for (const Region& turned : std::vector<Region>(schedule.node(ref).f.writes))
    lay_rows_last(schedule, ref, turned.buffer, rows.across);
  const std::vector<BlockRef> copies = turn_operands_of(schedule, ref, rows);
  const LoopRef steps = own_loop_of(schedule, ref, rows.along)->loop,
                across = own_loop_of(schedule, ref, rows.across)->loop;
  std::vector<LoopRef> order = own_loops(schedule, ref);
  const auto [groups, lane] = split(schedule, across, rows.lanes);
  std::replace(order.begin(), order.end(), across, groups);
  std::erase(order, steps);
  order.insert(order.end(), {steps, lane});
  reorder(schedule, order);
  const LoopRef around = order[order.size() - 3];
  for (const BlockRef& copy : copies) compute_at(schedule, copy, around);
  for (const BlockRef& copy : back) reverse_compute_at(schedule, copy, around);
  vectorize(schedule, lane);
}

}  // namespace

bool turn_scan(RuleContext& context, const BlockRef& ref) {
  const std::optional<Rows> rows = find_rows(context, context.schedule.node(ref), IterKind::ordered, 1);
  if (!rows) return false;
  return attempt(context, fmt::format("scan {} rows of {} side by side", rows->lanes, ref.name),
                 [&] { turn(context.schedule, ref, *rows); });
}

bool turn_fold(RuleContext& context, const BlockRef& ref,
               const std::function<bool(const BlockRef& reduction)>& vectorize) {
  const std::optional<Rows> rows = find_rows(context, context.schedule.node(ref), IterKind::reduce, 0);
  if (!rows || rows->operands.empty()) return false;
  Schedule& schedule = context.schedule;
  return attempt(context, fmt::format("fold {} rows of {} side by side", rows->lanes, ref.name), [&] {
    const std::vector<BlockRef> copies = turn_operands_of(schedule, ref, *rows);
    const LoopRef steps = own_loop_of(schedule, ref, rows->along)->loop;
    if (!vectorize(ref)) throw Refusal("turn_fold", 1, "turn_fold refused: condition 1, columns have no vectors");
    std::optional<LoopRef> around;
    for (const LoopRef& loop : own_loops(schedule, ref)) {
      if (loop == steps) break;
      around = loop;
    }
    if (!around) return;
    for (const BlockRef& copy : copies) compute_at(schedule, copy, *around);
  });
}

bool drop_unread_results(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  bool drops = false;
  const std::vector<Region> written = schedule.node(ref).f.writes;
  for (const Region& region : written) {
    if (schedule.node(ref).f.writes.size() < 2) break;
    if (!is_allocated(schedule.func(), region.buffer)) continue;
    drops |= attempt(context, fmt::format("drop {} of {}", region.buffer->name, ref.name),
                     [&] { drop_result(schedule, ref, region.buffer->name); });
  }
  return drops;
}

}  // namespace lathe
