#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "schedule/auto/ask_next_tile.h"
#include "schedule/auto/part_copies.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tiler.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Columns that one epilogue covers when lanes are folded: whole vectors for it, and a buffer that stays in the first
/// cache.
constexpr std::int64_t folded_vectors = 4;

/// Lanes for each step of a short sum up to which these stay as many as the columns that are folded together (measured
/// on Zen 4, 6000 products of 3 by 3 and of 3 by 2, in the place of two lanes: 0.25 to 0.3 of the time, 6 by 3 with
/// AVX-512 0.5; in four lanes a step 5 by 2 and 9 by 3 take 1.2 to 1.5).
constexpr std::int64_t most_idle_lanes = 4;

/// What an element may cost that is made for the one step of a tile that reads it, as it is in a copy in words.
constexpr double most_made_in_steps = 16;

/// Do the results of neighbours along the iter lie side by side?
bool writes_along(const Block& block, size_t iter) {
  const Accesses accesses = block_accesses(block);
  return std::all_of(accesses.begin(), accesses.end(),
                     [&](const Access& access) { return !access.store || access.strides[iter] == 1; });
}

/// Do vectors along what the block stores read memory in order, and not by places that are data?
bool reads_along(const Block& block) {
  const std::optional<size_t> last = iter_at(block, block.f.writes[0].ranges.back().min);
  const Accesses accesses = block_accesses(block);
  return last && std::all_of(accesses.begin(), accesses.end(),
                             [&](const Access& access) { return access.strides[*last].has_value(); });
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

std::optional<BlockRef> Tiler::maker_for_steps(std::int64_t row_tile, size_t vectors) const {
  const Block& reduction = schedule_.node(block_);
  if (shape_.rows && most_of(reduction, *shape_.rows).value_or(row_tile + 1) > row_tile) return std::nullopt;
  const Accesses accesses = block_accesses(reduction);
  for (const BlockRef& maker : schedule_.producers(block_)) {
    const Block& made = schedule_.node(maker);
    if (made.f.reducer || context_.scheduled.contains(maker.name) || schedule_.consumers(maker).size() != 1 ||
        fusion_wish(made) == FusionWish::apart || is_sealed(made) || body_cost(made) > most_made_in_steps ||
        load_count(accesses, made.f.writes[0].buffer) != 1 || !reads_along(made))
      continue;
    const auto read_once = [&](const Access& access) {
      if (access.masked || access.strides[vectors] != 1) return false;
      return std::all_of(shape_.space.begin(), shape_.space.end(), [&](size_t i) {
        return access.strides[i] != 0 || i == shape_.rows || is_int(reduction.f.iters[i].domain.extent, 1);
      });
    };
    const auto read = std::find_if(accesses.begin(), accesses.end(), [&](const Access& access) {
      return !access.store && access.buffer == made.f.writes[0].buffer;
    });
    // Registers are told apart by iters alone, and not by what remains of joined ones.
    const Load* load = load_of(reduction, made.f.writes[0].buffer);
    const bool plain = load && std::all_of(load->indices.begin(), load->indices.end(), [&](const Expr& index) {
                         return as_int(index) || iter_at(reduction, index);
                       });
    if (plain && read != accesses.end() && read_once(*read)) return maker;
  }
  return std::nullopt;
}

void Tiler::make_in_steps(const BlockRef& maker, const BlockRef& partial) {
  const std::vector<LoopRef> loops = schedule_.loops(partial);
  const auto steps = std::find_if(loops.rbegin(), loops.rend(), [&](const LoopRef& loop) {
    const For& node = schedule_.node(loop);
    return node.for_kind == ForKind::serial && drives(schedule_.node(partial), IterKind::reduce, node);
  });
  if (steps == loops.rend()) return;
  attempt(context_, fmt::format("make {} in the steps of {}", maker.name, block_.name), [&] {
    compute_at(schedule_, maker, *steps);
    set_space(schedule_, maker, space::registers);
    const std::vector<LoopRef> own = own_loops(schedule_, maker);
    if (own.empty() || !is_int(schedule_.node(own.back()).extent, lanes_))
      throw Refusal("tile_contractions", 0, "a step takes no whole vectors of it");
    for (size_t i = 0; i + 1 < own.size(); ++i) unroll(schedule_, own[i]);
    vectorize(schedule_, own.back());
    context_.scheduled.insert(maker.name);
  });
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
  in_steps_ = maker_for_steps(row_tile, vectors);
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
  if (in_steps_) make_in_steps(*in_steps_, partial);
  fold(columns, column_tile);
  if (reader_column_) vectorize(schedule_, narrow(*reader_column_));
  part_copies(context_, partial);
  context_.note(fmt::format("tile {}: {} x {} dot products of {} lanes", block_.name, row_tile, column_tile, lanes_));
}

}  // namespace lathe
