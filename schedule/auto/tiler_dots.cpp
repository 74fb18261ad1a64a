#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "schedule/auto/ask_next_tile.h"
#include "schedule/auto/part_copies.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tiler.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"

namespace lathe {
namespace {

/// Columns that one epilogue covers when lanes are folded: whole vectors for it, and a buffer that stays in the first
/// cache.
constexpr std::int64_t folded_vectors = 4;

/// Lanes for each step of a short sum up to which these stay as many as the columns that are folded together (measured
/// on Zen 4, 6000 products of 3 by 3 and of 3 by 2, in the place of two lanes: 0.25 to 0.3 of the time, 6 by 3 with
/// AVX-512 0.5; in four lanes a step 5 by 2 and 9 by 3 take 1.2 to 1.5).
constexpr std::int64_t most_idle_lanes = 4;

/// Do the results of neighbours along the iter lie side by side?
bool writes_along(const Block& block, size_t iter) {
  const Accesses accesses = block_accesses(block);
  return std::all_of(accesses.begin(), accesses.end(),
                     [&](const Access& access) { return !access.store || access.strides[iter] == 1; });
}

}  // namespace

void Tiler::fold(const std::optional<size_t>& columns, std::int64_t column_tile) {
  const Block& block = schedule_.node(block_);
  // Partial results have taken iters of the reduction along: those over results are as before.
  std::optional<size_t> iter;
  for (size_t i = 0, space = 0; columns && i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == IterKind::space && shape_.space[space++] == *columns) iter = i;
  }
  const auto extent = iter ? constant_extent(block, *iter) : std::nullopt;
  if (extent && column_tile > 1 && column_tile <= lanes_ && *extent % column_tile == 0 && writes_along(block, *iter)) {
    const std::vector<LoopRef> loops = schedule_.loops(block_);
    fold_columns(schedule_, block_, loops[loops.size() - 2], lanes_);
  } else {
    fold_lanes(schedule_, block_, lanes_);
  }
}

void Tiler::along_reduction(size_t vectors) {
  const Block& reduction = schedule_.node(block_);
  const std::optional<size_t> rows = shape_.rows, columns = shape_.columns;
  const auto extent = [&](const std::optional<size_t>& iter) {
    return iter ? most_of(reduction, *iter) : std::optional<std::int64_t>(1);
  };
  TiledExtents extents{extent(rows), extent(columns), extent(vectors)};
  extents.term_cycles = adds_products(reduction) ? 0 : term_cycles(reduction, vectors);
  const auto [row_tile, column_tile] = choose_dot_tile(context_.device, extents);
  const auto fit = [&](const std::optional<size_t>& iter, std::int64_t wanted) {
    return std::max<std::int64_t>(1, std::min(wanted, extent(iter).value_or(wanted)));
  };
  std::int64_t panel = columns ? fit(columns, folded_vectors * lanes_) : 1;
  panel = (panel + column_tile - 1) / column_tile * column_tile;
  // A shorter last panel is another body: rather have all a little shorter.
  const std::int64_t all = columns ? extent(columns).value_or(0) : 0;
  for (std::int64_t even = panel; all > 0 && even > panel / 4; even -= column_tile) {
    if (all % even != 0) continue;
    panel = even;
    break;
  }
  const auto reduce_extent = most_of(reduction, vectors);
  while (reduce_extent && lanes_ > *reduce_extent && lanes_ > 2 &&
         (lanes_ / 2 >= column_tile || lanes_ >= most_idle_lanes * *reduce_extent))
    lanes_ /= 2;
  tile_reader({row_tile, panel, rows, columns});

  std::vector<LoopRef> order;
  const std::optional<LoopRef> row = rows ? own_loop(*rows) : std::nullopt;
  std::optional<LoopRef> column = columns ? own_loop(*columns) : std::nullopt;
  if (column && panel > column_tile) {
    const auto [outer, inner] = split(schedule_, *column, column_tile);
    order.push_back(outer);
    column = inner;
  }
  for (const size_t i : shape_.reduce) {
    if (i == vectors) continue;
    if (const auto loop = own_loop(i)) order.push_back(*loop);
  }
  const std::optional<LoopRef> vector_loop = own_loop(vectors);
  LATHE_CHECK(vector_loop, "an iter that walks memory has a loop");
  const auto [steps, lane] = split(schedule_, *vector_loop, lanes_);
  order.push_back(steps);
  if (row) order.push_back(*row);
  if (column) order.push_back(*column);
  order.push_back(lane);
  reorder(schedule_, order);
  if (row) unroll(schedule_, *row);
  if (column) unroll(schedule_, *column);
  const BlockRef partial = rfactor(schedule_, block_, lane);
  set_space(schedule_, partial, space::registers);
  vectorize(schedule_, schedule_.loops(partial).back());
  const std::vector<LoopRef> loops = schedule_.loops(partial);
  const auto tile = std::find_first_of(loops.begin(), loops.end(), order.begin(), order.end());
  if (tile != loops.end()) ask_next_runs(context_, partial, *tile);
  fold(columns, column_tile);
  if (reader_column_) vectorize(schedule_, narrow(*reader_column_));
  part_copies(context_, partial);
  context_.note(fmt::format("tile {}: {} x {} dot products of {} lanes", block_.name, row_tile, column_tile, lanes_));
}

}  // namespace lathe
