#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tiler.h"
#include "schedule/auto/walk_order.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The share of a core's own caches within which panels stay near while rows of tiles walk all of them (measured on
/// Zen 4: products whose panels take 3 to 400 KB run as long as by panels on one thread; on two 222x141x5 and
/// 534x128x2 in 0.3 to 0.5 of the time, 127x129x31 and 96x96x96 in 0.6 to 0.75, 512x512x200 in 0.95).
constexpr double near_share = 0.5;
/// The longest share of rows that a core may have, as a multiple of an even one.
constexpr double most_uneven = 1.15;

}  // namespace

std::optional<LoopRef> Tiler::reader_loop(const std::optional<size_t>& iter) const {
  for (const auto& [own, loop] : loops_) {
    if (iter && own == *iter) return loop;
  }
  return std::nullopt;
}

std::optional<LoopRef> Tiler::own_loop(size_t iter) const {
  const Block& reduction = schedule_.node(block_);
  const std::vector<LoopRef> around = schedule_.loops(block_);
  for (size_t depth = around.size(); depth-- > outside_;) {
    if (uses_var(reduction.f.bindings[iter], around[depth].variable.get())) return around[depth];
  }
  return std::nullopt;
}

std::optional<LoopRef> Tiler::split_blocks(const StepCut& cut) {
  for (auto& [iter, loop] : loops_) {
    if (iter != cut.blocked) continue;
    const auto [blocks, within] = split(schedule_, loop, cut.block);
    loop = blocks;
    return within;
  }
  return std::nullopt;
}

bool Tiler::others_follow_inside() const {
  if (packed_ || !shape_.rows || !others_) return false;
  const auto lines = [&](size_t iter, std::int64_t rows) {
    return lines_of_step(schedule_.node(block_), shape_, iter, rows, lanes_);
  };
  return lines(*others_, paired_.others) < lines(*shape_.rows, paired_.rows);
}

bool Tiler::has_maker(const Buffer& operand) const {
  const std::vector<BlockRef> producers = schedule_.producers(block_);
  return std::any_of(producers.begin(), producers.end(), [&](const BlockRef& maker) {
    return !context_.scheduled.contains(maker.name) &&
           (!operand || schedule_.node(maker).f.writes[0].buffer == operand);
  });
}

bool Tiler::walks_panels_inside(const TileShape& tile, const ReaderLoops& loops,
                                const std::vector<LoopRef>& order) const {
  const auto nearer = order_of_tiles(context_, block_, reader_, loops_, order,
                                     {{*loops.column, tile.columns}, {*loops.row, tile.rows}}, false);
  const auto place = [&](const LoopRef& loop) { return std::find(nearer->begin(), nearer->end(), loop); };
  return nearer && place(*loops.row) < place(*loops.column);
}

std::vector<LoopRef> Tiler::order_loops(const TileShape& tile, const ReaderLoops& loops,
                                        const std::vector<size_t>& inside) {
  std::vector<LoopRef> order, below_columns;
  for (const size_t i : inside) {
    if (const auto loop = reader_loop(i)) below_columns.push_back(*loop);
  }
  for (const LoopRef& loop : schedule_.loops(reader_)) {
    const bool below = std::find(below_columns.begin(), below_columns.end(), loop) != below_columns.end();
    if (!below && !loops.has(loop)) order.push_back(loop);
  }
  // Where plans were made for panels that stay, loops below these keep their place.
  if (!across_ && !dot_ && !adds_up_parts()) {
    std::vector<LoopRef> around = order;
    around.insert(around.end(), below_columns.begin(), below_columns.end());
    if (auto nearer = order_around_tiles(context_, block_, reader_, loops_, around)) {
      order = std::move(*nearer);
      below_columns.clear();
    }
  }
  // The loops around a tile: each over tiles where it is to be split.
  if (loops.column) order.push_back(*loops.column);
  order.insert(order.end(), below_columns.begin(), below_columns.end());
  if (loops.other) order.push_back(*loops.other);
  if (loops.row) order.push_back(*loops.row);
  if (loops.row && loops.other && others_follow_inside()) {
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    context_.note(fmt::format("keep rows of {} near while the others follow each other", block_.name));
  }
  rows_outside_ = dot_ && loops.row && loops.column && walks_panels_inside(tile, loops, order);
  if (rows_outside_) {
    std::erase(order, *loops.column);
    order.push_back(*loops.column);
    context_.note(fmt::format("keep all panels of {} near while rows follow each other", block_.name));
  }
  if (packed_ || adds_up_parts() || across_ || dot_) return order;
  std::vector<TiledLoop> tiles;
  if (loops.column) tiles.push_back({*loops.column, tile.columns});
  if (loops.other) tiles.push_back({*loops.other, paired_.others});
  if (loops.row) tiles.push_back({*loops.row, tile.rows});
  if (auto nearer = order_of_tiles(context_, block_, reader_, loops_, order, tiles, windows_.has_value())) {
    order = std::move(*nearer);
    rows_of_core_ = 0;
    context_.note(fmt::format("order the loops around the tiles of {} by what lies near", block_.name));
  }
  if (shares_rows_ && order.size() > 1 && loops.column == order[order.size() - 2] && loops.row == order.back()) {
    std::swap(order[order.size() - 2], order.back());
    rows_of_core_ = 0;
    context_.note(fmt::format("share out rows of {}, all panels stay near", block_.name));
  }
  return order;
}

bool Tiler::shares_out_rows(const SpacePlan& plan) const {
  const Device& device = context_.device;
  if (device.cores == 1 || !shape_.rows || !plan.rows || !plan.columns || *plan.columns <= plan.width ||
      !plan.operand || plan.packed || plan.by_panels || packs_rows_ || turned_ || dot_ || across_ || others_ ||
      windows_ || adds_up_parts() || has_maker(plan.operand->buffer))
    return false;
  const double bytes = static_cast<double>(plan.column_bytes * *plan.columns);
  if (plan.column_bytes == 0 || bytes > near_share * static_cast<double>(own_cache_bytes(device))) return false;
  const std::int64_t strips = (*plan.rows + plan.tile.rows - 1) / plan.tile.rows,
                     panels = (*plan.columns + plan.width - 1) / plan.width;
  return longest_share(device, strips) <= std::max(most_uneven, longest_share(device, panels));
}

LoopRef Tiler::split_rows(const TileShape& tile, LoopRef loop, std::int64_t parts, std::int64_t own,
                          SplitLoops& found) {
  const bool strips = across_ && across_->strip > 0;
  const std::int64_t* extent = as_int(schedule_.node(loop).extent);
  const bool uneven = own > 0 && *extent % own != 0;
  if (own > 0) std::tie(found.core, loop) = split(schedule_, loop, own);
  if (parts > 1) std::tie(found.row_part, loop) = split(schedule_, loop, *extent / parts);
  extent = as_int(schedule_.node(loop).extent);
  const bool shifts =
      !strips && !adds_up_parts() && extent &&
      (uneven || (*extent % tile.rows != 0 && shifts_cheaply(*extent, tile.rows, 1, least_of_shifted_rows)));
  std::tie(loop, found.row) = split(schedule_, loop, strips ? across_->strip : tile.rows);
  if (shifts) annotate(schedule_, loop, shift_last_key, 1);
  return loop;
}

Tiler::SplitLoops Tiler::split_loops(const TileShape& tile, const ReaderLoops& loops, std::vector<LoopRef>& order) {
  SplitLoops found;
  std::int64_t tasks = 1, turns = 1;  // of loops around rows; of those that walk no panels
  for (LoopRef& loop : order) {
    if (loops.column == loop) {
      std::tie(loop, found.column) = split(schedule_, loop, tile.columns);
      if (group_ > 1) std::tie(loop, found.panel) = split(schedule_, loop, group_);
      column_loop_ = loop;
    } else if (loops.other == loop) {
      std::tie(loop, reader_other_) = split(schedule_, loop, paired_.others);
    } else if (loops.row == loop) {
      const std::int64_t* extent = as_int(schedule_.node(loop).extent);
      const bool innermost = loop == order.back();
      const std::int64_t parts =
          extent && shared_tile_ && innermost && (tasks > 1 || packed_ || dot_)
              ? panel_row_parts(context_.device, *shared_tile_, *extent, tasks,
                                static_cast<double>(turns) * shared_tile_->cycles, least_of_shifted_rows)
              : 1;
      // What other loops lie outside is shared out as well.
      std::int64_t own = extent && innermost && parts == 1 && order.size() == 2 ? rows_of_core_ : 0;
      if (extent && own == 0 && parts == 1 && loop == core_loop_) {
        const std::int64_t cores = context_.device.cores, strips = (*extent + tile.rows - 1) / tile.rows;
        if (shares_evenly(context_.device, strips)) own = (strips + cores - 1) / cores * tile.rows;
      }
      if (far_parts_ && far_parts_->block_rows > 0)
        own = far_parts_->rows_of_block(context_.device, *extent, tile.rows);
      loop = split_rows(tile, loop, parts, own, found);
      continue;
    }
    const std::int64_t count = extent_estimate(schedule_.node(loop).extent);
    tasks *= count;
    if (!column_loop_ || loop != *column_loop_) turns *= count;
  }
  return found;
}

void Tiler::place_in_tile(std::int64_t rows) {
  if (copy_) compute_at(schedule_, *copy_, tile_loop_);
  if (reader_row_ && copy_ && across_ && across_->strip > 0) {
    const LoopRef all_rows = across_->cut
                                 ? lay_parts(context_, *copy_, across_->rows, across_->vectors, across_->tile.lanes)
                                 : own_loops(schedule_, *copy_).front();
    tile_loop_ = split(schedule_, all_rows, rows).first;
  }
  if (accurate_cut_) take_accurate_parts(*accurate_cut_);
  compute_at(schedule_, block_, tile_loop_);
  std::vector<LoopRef> around = schedule_.loops(block_);
  around.resize(loops_of(path_to(schedule_, tile_loop_)).size());
  if (core_loop_) make_for_cores(*core_loop_);
  place_makers(context_, block_, around,
               across_     ? across_->copy
               : dot_      ? dot_->copy
               : in_steps_ ? *in_steps_
                           : BlockRef());
  outside_ = around.size();
}

void Tiler::share_panels(std::vector<LoopRef>& order) {
  const std::int64_t cores = context_.device.cores;
  if (cores == 1) return;
  for (size_t i = 1; i + 1 < order.size(); ++i) {
    const std::int64_t* extent = as_int(schedule_.node(order[i]).extent);
    if (!extent || !shares_evenly(context_.device, *extent)) continue;
    const auto [shares, within] = split(schedule_, order[i], (*extent + cores - 1) / cores);
    order[i] = within;
    order.insert(order.begin(), shares);
    return;
  }
  // Panels are packed for the rows of a part all the same.
  std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
}

void Tiler::tile_reader(const TileShape& tile, const std::vector<size_t>& inside) {
  const std::optional<LoopRef> block = across_ && across_->cut ? split_blocks(*across_->cut) : std::nullopt;
  const ReaderLoops loops{reader_loop(tile.row_iter), reader_loop(tile.column_iter), reader_loop(others_), block};
  std::vector<LoopRef> order = order_loops(tile, loops, inside);
  LATHE_CHECK(!order.empty(), "a tile has a loop around it");
  const size_t shared = shared_loop(tile, loops, order);
  makers_ = makers_for_cores(order, shared);
  if (!makers_.empty()) core_loop_ = order[shared];
  const bool by_rows = core_loop_ && loops.row == core_loop_;
  const SplitLoops within = split_loops(tile, loops, order);
  if (core_loop_) core_loop_ = within.core || by_rows ? within.core : share_out(order, shared);
  if (far_parts_ && far_parts_->block_rows == 0) share_parts(context_, order);
  if (deep_cut_) share_panels(order);
  const size_t sharing = rows_outside_ ? 2 : 1;  // loops within which tiles share panels
  if (loops.row && order.size() > sharing) panel_loop_ = order[order.size() - 1 - sharing];
  if (within.row_part) order.insert(order.end() - 1, *within.row_part);
  if (within.core) order.insert(order.begin(), *within.core);
  shares_panels_ = within.row_part.has_value();
  if (within.panel) order.push_back(*within.panel);
  tile_loop_ = order.back();
  for (const std::optional<LoopRef>& loop : {reader_other_, block, within.row, within.column}) {
    if (loop) order.push_back(*loop);
  }
  reorder(schedule_, order);
  reader_row_ = within.row;
  reader_column_ = within.column;
  place_in_tile(tile.rows);
}

}  // namespace lathe
