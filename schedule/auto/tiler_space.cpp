#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/error.h"
#include "schedule/auto/join_windows.h"
#include "schedule/auto/nearer_rows.h"
#include "schedule/auto/pack_rows.h"
#include "schedule/auto/part_copies.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/skip_borders.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tiler.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/walk_order.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Cycles that packing a vector takes.
constexpr double pack_cycles = 4;
/// The least part of a vector that rows of windows by steps fill, which are picked out of registers row by row
/// (measured on Zen 4, greatest of 3x3 by 2: rows of 14 results of 16 lanes as long as several at once, of 8 and 9 1.3
/// to 1.7 times).
constexpr double picked_row = 0.75;
/// The least part of the lanes of whole vectors that such rows, and those that they are picked out of, fill for vectors
/// to be as wide as they can (the same: 3x3 by 2 over rows of 112 0.87 of the time of vectors of half the width).
constexpr double filled_lanes = 0.8;

}  // namespace

bool Tiler::worth_packing_outside(const SpacePlan& plan, std::int64_t tiles) const {
  if (!plan.operand || !plan.columns) return false;
  const Block& reduction = schedule_.node(block_);
  const std::vector<size_t> sharing = sharing_iters(shape_, *plan.operand);
  for (const size_t i : sharing) tiles *= extent_estimate(reduction.f.iters[i].domain.extent);
  return !sharing.empty() && *plan.columns >= plan.width * context_.device.cores &&
         worth_packing(context_, reduction, shape_, *plan.operand, plan.tile, tiles);
}

std::int64_t Tiler::row_bytes(const Block& reduction, size_t vectors) const {
  if (!shape_.rows) return 0;
  for (const Access& access : block_accesses(reduction)) {
    const std::int64_t step = access.strides[*shape_.rows].value_or(0);
    if (!access.store && step != 0 && access.strides[vectors] == 0)
      return std::abs(step) * access.buffer->dtype.bytes();
  }
  return 0;
}

std::int64_t Tiler::reader_lanes() const {
  return std::min<std::int64_t>(lanes_, vector_lanes(schedule_.node(reader_), context_.device));
}

LoopRef Tiler::narrow(const LoopRef& loop) {
  const std::int64_t* extent = as_int(schedule_.node(loop).extent);
  const std::int64_t lanes = reader_lanes();
  return extent && *extent <= lanes ? loop : split(schedule_, loop, lanes).second;
}

bool Tiler::made_by_panels(const Access& operand) const {
  if (!panel_loop_) return false;
  for (const BlockRef& maker : schedule_.producers(block_)) {
    const std::vector<LoopRef> around = schedule_.loops(maker);
    if (schedule_.node(maker).f.writes[0].buffer == operand.buffer &&
        std::find(around.begin(), around.end(), *panel_loop_) != around.end())
      return true;
  }
  return false;
}

std::optional<std::int64_t> Tiler::next_panel(size_t vectors) const {
  const Block& reduction = schedule_.node(block_);
  // As it is now: where sums are cut, other steps walk it than did when tiles were planned.
  const auto operand = shape_.rows ? vector_operand(reduction, *shape_.rows, vectors) : std::nullopt;
  if (!operand || !lies_by_pages(context_, shape_, *operand)) return std::nullopt;
  std::vector<LoopRef> around = schedule_.loops(block_);
  around.resize(outside_);
  return next_place(schedule_, reduction, around, *operand);
}

void Tiler::add_up_chains(const LoopRef& chain, const std::optional<LoopRef>& row,
                          const std::optional<LoopRef>& column) {
  partial_ = partial_results(schedule_, block_, chain);
  set_space(schedule_, partial_, space::registers);
  unroll_tile(chain, row, column);
  std::vector<LoopRef> folding = own_loops(schedule_, block_);
  std::rotate(folding.begin(), folding.end() - 1, folding.end());
  reorder(schedule_, folding);
  unroll_tile(folding[0], row ? std::optional(folding[1]) : std::nullopt,
              column ? std::optional(folding.back()) : std::nullopt);
}

void Tiler::unroll_tile(const std::optional<LoopRef>& chain, const std::optional<LoopRef>& row,
                        const std::optional<LoopRef>& column) {
  if (chain) unroll(schedule_, *chain);
  if (row) unroll(schedule_, *row);
  if (column) vectorize_columns(schedule_, *column, lanes_);
}

std::optional<std::int64_t> Tiler::most_of(const Block& block, size_t iter) const {
  return greatest_extent(block.f.iters[iter].domain.extent, schedule_.func());
}

std::optional<std::int64_t> Tiler::depth_of(const Block& reduction) const {
  std::int64_t depth = 1;
  for (const size_t i : shape_.reduce) {
    const auto extent = most_of(reduction, i);
    if (!extent) return std::nullopt;
    depth *= *extent;
  }
  // A dot product takes a group of steps at a time.
  return dot_ ? depth / dot_->group : depth;
}

void Tiler::lay_lanes_last(size_t vectors) {
  const Block& reduction = schedule_.node(block_);
  const Region& result = reduction.f.writes[0];
  if (result.buffer->space != space::registers) return;
  for (size_t d = 0; d + 1 < result.ranges.size(); ++d) {
    if (!(result.ranges[d].min == Expr(reduction.f.iters[vectors].variable))) continue;
    transform_layout(schedule_, block_, result.buffer->name, moved_last(result.ranges.size(), d));
    return;
  }
}

bool Tiler::picks_windows_of_rows(size_t vectors) const {
  const Block& reduction = schedule_.node(block_);
  const Accesses accesses = block_accesses(reduction);
  const bool by_steps = std::any_of(accesses.begin(), accesses.end(),
                                    [&](const Access& a) { return a.strides[vectors].value_or(0) > 1; });
  return by_steps &&
         static_cast<double>(most_of(reduction, vectors).value_or(0)) >= picked_row * static_cast<double>(lanes_) &&
         sums_shared_windows(schedule_, block_);
}

bool Tiler::has_rows_to_pick() const {
  if (!are_summed_in_windows(schedule_, reader_)) return false;
  const Buffer rows = schedule_.node(reader_).f.writes[0].buffer;
  const std::vector<BlockRef> sums = schedule_.consumers(reader_);
  return std::any_of(sums.begin(), sums.end(), [&](const BlockRef& ref) {
    const Accesses accesses = block_accesses(schedule_.node(ref));
    return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      for (size_t i = 0; access.buffer == rows && i < access.strides.size(); ++i) {
        if (stores_in_a_row(accesses, i) && access.strides[i].value_or(0) > 1) return true;
      }
      return false;
    });
  });
}

namespace {

/// Does the reduction walk rows that are picked by index, by what is loaded for each step?
bool picks_steps(const Block& reduction, const ReductionShape& shape) {
  bool picks = false;
  for_each_expr(reduction.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load) return;
    for (const Expr& index : load->indices) {
      picks |= has_load(index) && std::any_of(shape.reduce.begin(), shape.reduce.end(), [&](size_t i) {
                 return uses_var(index, reduction.f.iters[i].variable.get());
               });
    }
  });
  return picks;
}

/// Do rows lie a multiple of one way of the first cache apart? Few of them stay there for the next panel.
bool push_each_other_out(const Device& device, std::int64_t row_bytes) {
  if (device.caches.empty() || device.caches.front().ways == 0) return false;
  return row_bytes % (device.caches.front().bytes / device.caches.front().ways) == 0;
}

/// The tile of sums of rows that are picked, where a vector is a line: all of a row at once, so that one vector alone
/// has idle lanes (measured on Zen 4, sums, weighted sums and maxima of 20 rows of 5 to 100 floats: 0.73 to 1.0 of the
/// time; of 64 and 128, which have none, 0.9 to 1.3); and panels of half of the registers where rows push each other
/// out of the cache (of 50 rows of 4 KB 0.44 to 0.7). Nothing for others.
std::optional<RegisterTile> tile_of_picked_rows(const Device& device, std::int64_t columns, std::int64_t lanes,
                                                int bits) {
  if (!loads_lines(device)) return std::nullopt;
  const std::int64_t most = device.vector_registers / 2;
  const bool same_sets = push_each_other_out(device, columns * bits / 8);
  while (lanes > 2 && lanes / 2 >= columns) lanes /= 2;
  const std::int64_t vectors = (columns + lanes - 1) / lanes;
  if (!same_sets && (vectors > most || columns % lanes == 0)) return std::nullopt;
  return RegisterTile{1, std::min(vectors, most), lanes, 1, static_cast<double>(columns)};
}

/// Vectors of rows that data finds, each of which is found once where a tile takes all of it.
constexpr std::int64_t most_found = 8;

/// Does the data say which row each step adds?
bool finds_rows(const Block& reduction, const ReductionShape& shape, size_t vectors) {
  const Accesses accesses = block_accesses(reduction);
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.strides[vectors] == 1 &&
           std::any_of(shape.reduce.begin(), shape.reduce.end(), [&](size_t i) { return !access.strides[i]; });
  });
}

}  // namespace

RegisterTile Tiler::choose_space_tile(size_t vectors, const SpacePlan& plan) {
  const Block& reduction = schedule_.node(block_);
  if (across_) return across_->tile;
  const auto others = others_ ? most_of(reduction, *others_) : std::nullopt;
  if (plan.rows && others && plan.columns && plan.depth) {
    paired_ = choose_paired_tile(context_.device, lanes_, bits_, {*plan.rows, *others, *plan.columns, *plan.depth});
    return RegisterTile{paired_.rows, 1, paired_.lanes, 1, paired_.cycles};
  }
  others_.reset();
  if (!plan.shared && plan.columns && (picks_windows_of_rows(vectors) || has_rows_to_pick())) {
    // Picking takes as many instructions of a narrow vector as of a wide one, so that a few idle lanes cost less.
    const auto columns = static_cast<double>(*plan.columns);
    const std::int64_t count = (*plan.columns + lanes_ - 1) / lanes_;
    if (2 * count <= context_.device.vector_registers && columns >= filled_lanes * static_cast<double>(count * lanes_))
      return RegisterTile{1, count, lanes_, 1, columns};
  }
  if (!plan.shared && !windows_ && plan.columns && picks_steps(reduction, shape_)) {
    if (const auto tile = tile_of_picked_rows(context_.device, *plan.columns, lanes_, bits_)) return *tile;
  }
  const bool in_runs = shape_.column_run > 0;
  const bool plain = plan.shared && (adds_products(reduction) ||
                                     (shape_.rows && adds_under_masks(context_.device, reduction, *shape_.rows)));
  return choose_tile(
      context_.device, lanes_, bits_,
      {plan.rows, in_runs ? shape_.column_run : plan.columns, plan.depth, shape_.row_run, in_runs, plan.shared, false,
       row_bytes(reduction, vectors),
       plain ? 0 : term_cycles(reduction, vectors, plan.shared ? shape_.rows : std::nullopt),
       !plan.shared && plan.columns && *plan.columns <= most_found * lanes_ && finds_rows(reduction, shape_, vectors),
       false, windows_});
}

Tiler::SpacePlan Tiler::plan_space(size_t vectors) {
  const Block& reduction = schedule_.node(block_);
  SpacePlan plan;
  plan.vectors = vectors;
  const std::optional<size_t> shared_rows = shape_.rows;
  if (!across_ && !dot_ && !paired_rows(reduction, shape_, vectors))
    windows_ = overlapping_windows(context_, reduction, shape_, vectors);
  // Those that others are summed from take turns with these, row by row.
  if (windows_ && are_summed_in_windows(schedule_, reader_)) windows_.reset();
  plan.shared = !windows_ && (shape_.rows || across_ || dot_);
  if (windows_) {
    shape_.rows = windows_->rows;
  } else if (!plan.shared) {
    shape_.rows = independent_rows(reduction, shape_, vectors);
    // Windows of what is shared take turns with that, row by row.
    if (picks_windows_of_rows(vectors)) shape_.rows.reset();
  }
  if (!across_ && !dot_ && !paired_rows(reduction, shape_, vectors)) {
    if (const auto nearer = nearer_rows(context_, reduction, shape_, vectors)) shape_.rows = nearer;
  }
  if (windows_ && shape_.rows != windows_->rows) windows_.reset();
  plan.rows = shape_.rows ? most_of(reduction, *shape_.rows) : std::optional<std::int64_t>(1);
  plan.columns = most_of(reduction, vectors);
  plan.depth = depth_of(reduction);
  if (!dot_ && !across_) others_ = paired_rows(reduction, shape_, vectors);
  plan.tile = choose_space_tile(vectors, plan);
  if (windows_ && windows_->lane_weights && plan.tile.rows == 1) {
    windows_.reset();
    plan.shared = true;
    shape_.rows = shared_rows;
    plan.rows = most_of(reduction, *shape_.rows);
    plan.tile = choose_space_tile(vectors, plan);
  }
  if (shape_.column_run > 0 && plan.tile.cycles == 0)
    throw Refusal("tile_contractions", 0, "no tile stays in a run of columns");
  if (plan.tile.rows == 1 && !plan.shared) shape_.rows.reset();
  lanes_ = plan.tile.lanes;
  if (shape_.rows) plan.operand = vector_operand(reduction, *shape_.rows, vectors);
  plan.width = plan.tile.vectors * lanes_;
  plan.column_bytes = plan.depth.value_or(0) * bits_ / 8;
  plan.whole_panels = plan.columns && *plan.columns % plan.width == 0;
  return plan;
}

std::int64_t Tiler::bytes_of_rows(const SpacePlan& plan) const {
  std::int64_t bytes = 0;
  for (const Access& access : block_accesses(schedule_.node(block_))) {
    if (!access.store && shape_.rows && access.strides[plan.vectors] == 0 && access.strides[*shape_.rows] != 0)
      bytes += plan.rows.value_or(0) * plan.depth.value_or(0) * access.buffer->dtype.bytes();
  }
  return bytes;
}

std::int64_t Tiler::panels_of_group(const SpacePlan& plan) const {
  if (!plan.packed || !plan.operand || !plan.rows || !plan.columns || !plan.depth) return 1;
  if (!plan.stacks_panels) return 1;
  const std::int64_t panels = (*plan.columns + plan.width - 1) / plan.width;
  if (plan.far && plan.pays && !plan.turns_panels) {
    const std::int64_t step_bytes = plan.width * plan.operand->buffer->dtype.bytes();
    const std::int64_t together =
        panels_of_piece(context_.device, step_bytes, plan.panel_bytes(), panels, *plan.rows / plan.tile.rows);
    if (together > 1) return together;
  }
  // A shorter last panel would be a group of its own, with further bodies.
  if (!plan.whole_panels) return 1;
  return panels_together(context_.device, bytes_of_rows(plan), plan.panel_bytes(), panels);
}

void Tiler::plan_panels(SpacePlan& plan) {
  const Block& reduction = schedule_.node(block_);
  const std::optional<Access>& operand = plan.operand;
  const RegisterTile& tile = plan.tile;
  plan.far = operand && !across_ && !shape_.reduce.empty() && lies_scattered(reduction, shape_, *operand);
  plan.pays = operand && plan.rows && !across_ && !dot_ &&
              worth_packing(context_, reduction, shape_, *operand, tile, *plan.rows / tile.rows);
  // What loops outside of the panels share would be turned around anew by each of their iterations.
  plan.turns_panels = turned_ && operand && shape_.rows && plan.columns && plan.whole_panels &&
                      *plan.columns > plan.width && sharing_iters(shape_, *operand).empty();
  if (turned_ && !plan.turns_panels) turn_copy(context_, block_, *turned_);
  plan.by_panels = operand && !across_ && !dot_ && !plan.turns_panels &&
                   copy_for_panels(context_, block_, operand->buffer, plan.vectors, plan.width);
  // A copy that may be made part by part is laid out when it is known whether it is.
  const bool whole_sums = tile.chains == 1 && !plan_accurate_cut(reduction, shape_);
  if (plan.by_panels && !(whole_sums && wants_parts(context_.device, operand->buffer)))
    plan.by_panels = lay_by_panels(context_, block_, operand->buffer, plan.vectors, plan.width);
  plan.pays_outside = plan.rows && !plan.pays && !plan.turns_panels && !plan.by_panels && !across_ && !dot_ &&
                      !others_ && worth_packing_outside(plan, *plan.rows / tile.rows);
  plan.packed = plan.turns_panels || (plan.pays && !plan.by_panels) || plan.pays_outside;
  plan.stacks_panels =
      plan.turns_panels || (operand && copies_by_panels(schedule_.node(block_), operand->buffer, plan.vectors));
  group_ = panels_of_group(plan);
  if (plan.columns && !dot_ && !across_)
    packs_rows_ = pack_rows(context_, block_, shape_, tile.rows, (*plan.columns + plan.width - 1) / plan.width);
}

std::vector<size_t> Tiler::iters_inside_panels(const SpacePlan& plan) const {
  const bool panels_outside =
      plan.operand && (!plan.packed || plan.pays_outside) && !(across_ && across_->panels_inside);
  if (!panels_outside) return {};
  std::vector<size_t> inside = sharing_iters(shape_, *plan.operand);
  if (others_) std::erase(inside, *others_);
  if (across_) {
    // A panel is packed once for all of these; where it stays near as a whole, what they share besides does, too.
    const std::vector<size_t> sliding = sliding_iters(schedule_.node(block_), shape_, *plan.operand);
    inside.insert(across_->panel_stays_near ? inside.end() : inside.begin(), sliding.begin(), sliding.end());
  }
  return inside;
}

void Tiler::lay_panels(SpacePlan& plan) {
  const std::int64_t panel_width = plan.stacks_panels && (group_ > 1 || shares_panels_) ? plan.width : 0;
  if (plan.turns_panels && turned_) {
    if (panel_loop_) compute_at(schedule_, turned_->copy, *panel_loop_);
    turn_copy(context_, block_, *turned_, panel_width);
  } else {
    const std::optional<LoopRef>& around = plan.pays_outside ? column_loop_ : panel_loop_;
    plan.packed = plan.packed && plan.operand && around &&
                  pack_panel(context_, block_, plan.operand->buffer, plan.vectors, lanes_, *around, panel_width);
  }
  // Panels that are made for all parts of rows at once, or in groups, lie one behind another all the same.
  if (plan.operand && panel_width > 0 && !plan.packed && made_by_panels(*plan.operand))
    make_by_panels(context_, block_, plan.operand->buffer, plan.vectors, lanes_, plan.width);
  if (across_ && column_loop_) pack_across(context_, block_, *across_, *column_loop_);
  if (dot_) {
    if (panel_loop_) compute_at(schedule_, dot_->copy, *panel_loop_);
    pack_groups(context_, block_, *dot_, lanes_, shares_panels_ || rows_outside_ ? plan.width : 0);
  }
}

void Tiler::store_tile(const StepLoops& loops) {
  if (!copy_) {
    if (reader_other_) unroll(schedule_, *reader_other_);
    if (reader_row_) unroll(schedule_, *reader_row_);
    if (reader_column_) vectorize_columns(schedule_, *reader_column_, lanes_);
    return;
  }
  std::vector<LoopRef> copied = schedule_.loops(*copy_);
  // A loop over parts of sums is around the tile's steps alone.
  copied.erase(copied.begin(), copied.begin() + static_cast<std::ptrdiff_t>(outside_ - part_loops()));
  if (!copied.empty() && loops.column) {
    for (size_t i = 0; i + 1 < copied.size(); ++i) unroll(schedule_, copied[i]);
    vectorize_columns(schedule_, copied.back(), lanes_);
  }
  if (across_ && reader_row_ && reader_column_) {
    store_across(context_, reader_, *across_, *reader_row_, *reader_column_);
  } else if (reader_column_ && body_cost(schedule_.node(reader_)) < function_body) {
    // A function's body would be long to compile for each vector.
    vectorize_columns(schedule_, *reader_column_, reader_lanes());
  } else if (reader_column_) {
    vectorize(schedule_, narrow(*reader_column_));
  }
}

void Tiler::along_space(size_t vectors) {
  lay_lanes_last(vectors);
  SpacePlan plan = plan_space(vectors);
  plan_panels(plan);
  const RegisterTile& tile = plan.tile;
  if (!dot_ && !across_ && !others_ && shape_.rows && plan.rows && plan.columns &&
      (!plan.packed || (plan.pays && group_ == 1))) {
    const std::int64_t packed_vectors = plan.packed ? plan.depth.value_or(0) * *plan.columns / lanes_ : 0;
    rows_of_core_ = rows_of_core(context_.device, tile, *plan.rows, *plan.columns,
                                 pack_cycles * static_cast<double>(packed_vectors), least_of_shifted_rows);
  }
  packed_ = plan.packed;
  shares_rows_ = shares_out_rows(plan);
  if (plan.operand && shape_.rows && !across_ && !deep_cut_ && !plan.pays_outside && plan.whole_panels)
    shared_tile_ = tile;
  if (plan.shared && !across_ && !dot_ && !others_ && !adds_up_parts() && tile.chains == 1)
    accurate_cut_ = plan_accurate_cut(schedule_.node(block_), shape_);
  tile_reader({tile.rows, plan.width, shape_.rows, vectors}, iters_inside_panels(plan));
  lay_panels(plan);

  StepLoops loops = lay_step_loops(plan);
  if (loops.chain) {
    add_up_chains(*loops.chain, loops.row, loops.column);
  } else {
    unroll_tile(std::nullopt, loops.row, loops.column);
  }
  if (windows_ && windows_->lane_weights && tile.rows > 1) keep_masks(vectors);
  if (loops.together) unroll(schedule_, *loops.together);
  if (loops.other) unroll(schedule_, *loops.other);
  if (windows_ && tile.rows > 1) {
    take_windows(loops, tile.turns > 1);
  } else if (!plan.shared && !loops.chain && !dot_ && !across_) {
    unroll_few_steps(loops.order, tile, vectors);
  }
  if (const auto first = loops.outermost()) decompose_reduction(schedule_, loops.chain ? partial_ : block_, *first);
  ask_in_steps(plan, loops);
  store_tile(loops);
  if (!dot_ && !windows_ && !others_ && !adds_up_parts() && !accurate_cut_) {
    skip_borders(context_, loops.chain ? partial_ : block_,
                 {loops.order, loops.row, shape_.rows, tile.rows, vectors, plan.width});
  }
  const Buffer operand =
      part_copies(context_, loops.chain ? partial_ : block_, plan.operand ? plan.operand->buffer : nullptr);
  if (plan.by_panels && operand) lay_by_panels(context_, block_, operand, plan.vectors, plan.width);
  context_.note(fmt::format("tile {}: {} rows x {} vectors of {} lanes{}", block_.name, tile.rows,
                            others_ ? paired_.others : tile.vectors, lanes_,
                            others_       ? " of either operand"
                            : dot_        ? fmt::format(" of {}", dot_->intrinsic->name)
                            : loops.chain ? fmt::format(" in {} chains", tile.chains)
                                          : ""));
}

}  // namespace lathe
