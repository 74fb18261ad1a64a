#include "schedule/auto/pack_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/turned_operand.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/vectorize.h"

namespace lathe {
namespace {

/// Steps of the reduction that one piece of a packed copy takes: lines that several tiles share stay in the first
/// cache.
constexpr std::int64_t packed_steps = 16;
/// Tiles that read the same rows, and by what share of a core's own cache the first and the last step lie apart, from
/// which on a copy pays.
constexpr std::int64_t packing_reuse = 4, packing_share = 2;
/// What a core has for itself where its description does not say.
constexpr std::int64_t assumed_cache = std::int64_t{1} << 20;

/// The operand that pack_rows lays out by tiles, where that pays.
std::optional<TurnedOperand> rows_to_pack(const RuleContext& context, const Block& block, const ReductionShape& shape,
                                          std::int64_t rows, std::int64_t tiles) {
  if (!shape.rows || !shape.vector_space || shape.reduce.empty() || rows < 2 || tiles < packing_reuse)
    return std::nullopt;
  std::optional<TurnedOperand> operand;
  std::int64_t bytes = 0;
  for (const size_t iter : shape.reduce) {
    operand = operand_along(block, *shape.rows, iter, shape.vector_space);
    const auto depth = constant_extent(block, iter);
    if (!operand || !depth) return std::nullopt;
    // Where the distance of steps is known at run time alone, rows lie between them at least.
    const std::int64_t* known = as_int(strides_of(operand->buffer)[operand->across]);
    const std::int64_t distance = known ? *known : *as_int(operand->buffer->shape[operand->along]);
    bytes = std::max(bytes, *depth * distance * operand->buffer->dtype.bytes());
  }
  const std::int64_t own = own_cache_bytes(context.device);
  return bytes * packing_share < (own > 0 ? own : assumed_cache) ? std::nullopt : operand;
}

}  // namespace

bool packs_rows(const RuleContext& context, const Block& block, const ReductionShape& shape, std::int64_t rows,
                std::int64_t tiles) {
  return rows_to_pack(context, block, shape, rows, tiles).has_value();
}

bool pack_rows(RuleContext& context, const BlockRef& ref, const ReductionShape& shape, std::int64_t rows,
               std::int64_t tiles) {
  Schedule& schedule = context.schedule;
  const std::optional<TurnedOperand> operand = rows_to_pack(context, schedule.node(ref), shape, rows, tiles);
  if (!operand) return false;
  return attempt(context, fmt::format("pack rows of {} for {}", operand->buffer->name, ref.name), [&] {
    const BlockRef copy = cache_read(schedule, ref, operand->buffer->name, space::global, operand->place);
    const Buffer packed = schedule.node(copy).f.writes[0].buffer;
    LayoutMap map = same_layout(packed->rank());
    const Expr row = map.from[operand->along];
    map.to.erase(map.to.begin() + static_cast<std::ptrdiff_t>(operand->along));
    map.to.insert(map.to.begin(), floor_div(row, rows));
    map.to.push_back(floor_mod(row, rows));
    transform_layout(schedule, ref, packed->name, map);
    const LoopRef along = loop_of_dimension(schedule, copy, operand->along),
                  across = loop_of_dimension(schedule, copy, operand->across);
    std::vector<LoopRef> order = other_loops(schedule, copy, along, across);
    const auto [pieces, steps] = split(schedule, across, packed_steps);
    const auto [tile, within] = split(schedule, along, rows);
    order.insert(order.end(), {pieces, tile, steps, within});
    reorder(schedule, order);
    vectorize(schedule, within);
    context.scheduled.insert(copy.name);
  });
}

}  // namespace lathe
