#include "schedule/auto/chain_tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/register_tile.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A last tile is shifted to where it is whole if no more than one element in so many is computed only for that.
constexpr std::int64_t least_of_shifted = 16;

class ChainTiler {
 public:
  ChainTiler(RuleContext& context, const ChainedBlock& block, const ChainedRows& rows)
      : context_(context), schedule_(context.schedule), block_(block), rows_(rows) {}

  std::int64_t run() {
    const auto& [ref, reader, row, column, row_iter, column_iter] = block_;
    const auto extent = [&](const LoopRef& loop) { return *as_int(schedule_.node(loop).extent); };
    std::int64_t depth = 1;
    for (const Iter& iter : schedule_.node(ref).f.iters)
      if (iter.kind == IterKind::reduce) depth *= *as_int(iter.domain.extent);
    TiledExtents extents{extent(row), extent(column), depth};
    // Scores may be narrower than what a wider mask makes of the weights.
    const std::int64_t most_lanes =
        std::min<std::int64_t>(rows_.lanes, vector_lanes(schedule_.node(ref), context_.device));
    // Whole panels of a copy can be laid out one behind another.
    extents.whole_columns = counts_slots(context_.device) && *extents.columns % (2 * most_lanes) == 0;
    const RegisterTile shape = choose_tile(context_.device, most_lanes, widest_bits(schedule_.node(ref)), extents);
    const std::int64_t lanes = shape.lanes;
    const std::int64_t all_rows = extent(row), all_columns = extent(column), tile_columns = shape.vectors * lanes;
    const std::int64_t tile_rows = even_rows(all_rows, shape);
    const auto [rows, inner_row] = split(schedule_, row, tile_rows);
    const auto [columns, inner_column] = split(schedule_, column, tile_columns);
    if (rows_.all % tile_rows != 0 || rows_.block % tile_rows != 0) shift_last(rows, all_rows, tile_rows, 1);
    if (all_columns % tile_columns != 0) shift_last(columns, all_columns, tile_columns, lanes);
    reorder(schedule_, {columns, rows, inner_row, inner_column});
    compute_at(schedule_, ref, rows);
    const size_t outside = loops_of(path_to(schedule_, rows)).size();
    std::vector<LoopRef> order;
    for (const LoopRef& loop : own_loops(schedule_, ref)) {
      if (drives(schedule_.node(ref), IterKind::reduce, schedule_.node(loop))) order.push_back(loop);
    }
    const auto own_row = deepest_loop(schedule_, ref, row_iter, outside),
               own_column = deepest_loop(schedule_, ref, column_iter, outside);
    const std::optional<LoopRef> together = take_steps_together(shape, order);
    const LoopRef first = order.front();
    if (own_row) order.push_back(*own_row);
    if (own_column) order.push_back(*own_column);
    reorder(schedule_, order);
    if (together) unroll(schedule_, *together);
    if (own_row) unroll(schedule_, *own_row);
    if (own_column) vectorize_columns(schedule_, *own_column, lanes);
    decompose_reduction(schedule_, ref, first);
    unroll(schedule_, inner_row);
    vectorize_columns(schedule_, inner_column, lanes);
    context_.note(fmt::format("tile {}: {} rows x {} vectors of {} lanes", ref.name, tile_rows, shape.vectors, lanes));
    context_.scheduled.insert(ref.name);
    context_.scheduled.insert(reader.name);
    return all_columns % tile_columns == 0 ? tile_columns : 0;
  }

 private:
  /// The tile's rows, or a few less or more where they then divide the block's, or leave less of a last tile empty, and
  /// the registers still hold them.
  std::int64_t even_rows(std::int64_t rows, const RegisterTile& shape) const {
    const std::int64_t registers = context_.device.vector_registers - 1;
    const auto empty = [&](std::int64_t tile) { return (rows + tile - 1) / tile * tile - rows; };
    std::int64_t best = shape.rows;
    for (const std::int64_t more : {1, -1, 2, -2, 3, -3, -4}) {
      const std::int64_t candidate = shape.rows + more;
      const bool fits =
          candidate >= 2 && 3 * candidate >= 2 * shape.rows && (candidate + 1) * shape.vectors <= registers;
      if (fits && empty(candidate) < empty(best)) best = candidate;
    }
    return best;
  }

  /// Splits the innermost of the loops over steps where a tile takes several at once; returns the loop over these.
  std::optional<LoopRef> take_steps_together(const RegisterTile& shape, std::vector<LoopRef>& order) {
    const std::int64_t* steps = as_int(schedule_.node(order.back()).extent);
    const double cycles = shape.cycles * static_cast<double>(rows_.all) / static_cast<double>(rows_.block);
    const std::int64_t count = steps ? steps_together(context_.device, shape, cycles, *steps) : 1;
    if (count == 1 || count == *steps) return std::nullopt;
    const auto [outer, inner] = split(schedule_, order.back(), count);
    order.back() = outer;
    order.push_back(inner);
    return inner;
  }

  /// A last tile that is not whole is shifted where that computes little twice; else it gets a body of its own.
  void shift_last(const LoopRef& tiles, std::int64_t extent, std::int64_t tile, std::int64_t lanes) {
    if (shifts_cheaply(extent, tile, lanes, least_of_shifted)) annotate(schedule_, tiles, shift_last_key, 1);
  }

  RuleContext& context_;
  Schedule& schedule_;
  const ChainedBlock& block_;
  const ChainedRows& rows_;
};

}  // namespace

std::int64_t tile_chained(RuleContext& context, const ChainedBlock& block, const ChainedRows& rows) {
  return ChainTiler(context, block, rows).run();
}

std::optional<LoopRef> deepest_loop(const Schedule& schedule, const BlockRef& ref, size_t iter, size_t outside) {
  const std::vector<LoopRef> around = schedule.loops(ref);
  for (size_t depth = around.size(); depth-- > outside;) {
    if (uses_var(schedule.node(ref).f.bindings[iter], around[depth].variable.get())) return around[depth];
  }
  return std::nullopt;
}

}  // namespace lathe
