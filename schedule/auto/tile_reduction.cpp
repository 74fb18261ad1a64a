#include "schedule/auto/tile_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "schedule/auto/ask_for_results.h"
#include "schedule/auto/ask_next_tile.h"
#include "schedule/auto/far_parts.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tile_reader.h"
#include "schedule/auto/turn_operands.h"
#include "schedule/auto/walk_order.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// An epilogue that costs more goes through a tile in memory, in a loop: unrolled over the registers of the tile it
/// would take longer to compile than all the rest.
constexpr double costly_epilogue = 8;
/// Columns that one epilogue covers when lanes are folded: whole vectors for it, and a buffer that stays in the first
/// cache.
constexpr std::int64_t folded_vectors = 4;
/// Steps ahead for which a tile asks for the lines of a packed panel that comes from the second cache, where each
/// multiplication wants a line (measured on Cascade Lake, 6 x 4 over panels of 64 KB and more: 0.98 of the peak,
/// without 0.89; 2 to 16 steps are alike).
constexpr std::int64_t steps_ahead = 4;
/// The same where a tile takes several steps at once, of one line each (6 x 2 of 256 bits over panels of 32 KB and
/// more: 0.96 of the time; panels that stay in the first cache lose nothing).
constexpr std::int64_t short_steps_ahead = 8;
/// A last tile is shifted to where its rows are whole if no more than one row in so many is computed only for that: a
/// body of its own takes up to half of a product's compile time, which one of 64 to 512 rows pays with 0 to 2 percent.
constexpr std::int64_t least_of_shifted_rows = 32;
/// Cycles that packing a vector takes.
constexpr double pack_cycles = 4;

/// The shape of a block of parts of sums: iters over results keep their places, before those of the parts' steps.
ReductionShape with_steps_of(const Block& partial, ReductionShape shape) {
  shape.reduce.clear();
  for (size_t i = 0; i < partial.f.iters.size(); ++i) {
    if (partial.f.iters[i].kind == IterKind::reduce) shape.reduce.push_back(i);
  }
  return shape;
}

class Tiler {
 public:
  Tiler(RuleContext& context, const BlockRef& block, const ReductionShape& shape, std::optional<TurnedCopy> turned)
      : context_(context), schedule_(context.schedule), block_(block), shape_(shape), turned_(std::move(turned)) {}
  Tiler(RuleContext& context, const BlockRef& block, const ReductionShape& shape, const DotPlan& dot)
      : context_(context), schedule_(context.schedule), block_(block), shape_(shape), dot_(dot) {}
  Tiler(RuleContext& context, const BlockRef& block, const ReductionShape& shape, const AcrossPlan& across)
      : context_(context), schedule_(context.schedule), block_(block), shape_(shape), across_(across) {}

  void run() {
    if (!across_ && !dot_ && !has_makers()) far_parts_ = plan_far_parts(context_, block_, shape_);
    if (across_) {
      lay_across(*across_);
    } else if (far_parts_) {
      add_up_parts(far_parts_->cut);
    } else {
      find_reader();
    }
    const Block& reduction = schedule_.node(block_);
    lanes_ = vector_lanes(reduction, context_.device);
    if (!dot_) walk_far_steps_outside(context_, reduction, shape_);
    if (!copy_) loops_ = matched_loops(reduction, schedule_.node(reader_));
    if (shape_.vector_space) {
      along_space(*shape_.vector_space);
    } else if (shape_.vector_reduce) {
      if (turned_) turn_copy(context_, block_, *turned_);
      along_reduction(*shape_.vector_reduce);
    }
    context_.scheduled.insert(block_.name);
    context_.scheduled.insert(reader_.name);
  }

 private:
  /// The block that stores what the tile holds: the one element-wise reader, or a new copy.
  void find_reader() {
    const auto reader =
        element_wise_reader(context_, block_, shape_, shape_.vector_space ? shape_.vector_space : shape_.columns);
    if (!reader) {
      reader_ = cache_write(schedule_, block_, shape_.vector_space ? space::registers : space::global);
      return;
    }
    reader_ = *reader;
    if (!shape_.vector_space) return;
    if (body_cost(schedule_.node(reader_).f.body) > costly_epilogue) {
      loops_ = matched_loops(schedule_.node(block_), schedule_.node(reader_));
      copy_ = cache_write(schedule_, block_, space::registers);
    } else {
      set_space(schedule_, block_, space::registers);
    }
  }

  /// Turns the operand and the result around, so that the plan's vectors walk both; the reader turns it back.
  void lay_across(AcrossPlan& plan) {
    stage_across(context_, block_, plan);
    const auto reader = element_wise_reader(context_, block_, shape_, std::nullopt);
    reader_ = reader && !plan.stores_for_reader ? *reader : cache_write(schedule_, block_, space::global);
    loops_ = matched_loops(schedule_.node(block_), schedule_.node(reader_));
    turn_result(schedule_, block_, plan);
    if (plan.cut) {
      take_parts(*plan.cut);
    } else {
      copy_ = cache_write(schedule_, block_, space::registers);
    }
    shape_.vector_space = plan.vectors;
    shape_.rows = plan.rows;
    shape_.row_run = 0;
  }

  /// Has tiles make parts of sums, which the block that was adds up where results are kept.
  void take_parts(const StepCut& cut) {
    copy_ = block_;
    block_ = cut_sums(context_, block_, cut);
    shape_ = with_steps_of(schedule_.node(block_), shape_);
  }

  /// The same where the results are those of the program: what adds parts up reads what tiles hold.
  void add_up_parts(const StepCut& cut) {
    reader_ = block_;
    block_ = cut_sums(context_, block_, cut);
    shape_ = with_steps_of(schedule_.node(block_), shape_);
    decompose_reduction(schedule_, reader_, own_loops(schedule_, reader_).front());
  }

  /// Has each tile take a long sum in parts, one behind another.
  void take_accurate_parts(const StepCut& cut) {
    const BlockRef total = block_;
    block_ = cut_sums(context_, total, cut);
    compute_at(schedule_, total, tile_loop_);
    LATHE_CHECK(shape_.vector_space, "vectors walk the columns of a tile");
    tile_loop_ = add_in_tile(context_, total, *shape_.vector_space, lanes_);
    shape_ = with_steps_of(schedule_.node(block_), shape_);
  }

  std::optional<LoopRef> reader_loop(const std::optional<size_t>& iter) const {
    for (const auto& [own, loop] : loops_) {
      if (iter && own == *iter) return loop;
    }
    return std::nullopt;
  }

  /// The loop of the reduction that one of its iters is bound to, alone or plus what is outside.
  std::optional<LoopRef> own_loop(size_t iter) const {
    const Block& reduction = schedule_.node(block_);
    const std::vector<LoopRef> around = schedule_.loops(block_);
    for (size_t depth = around.size(); depth-- > outside_;) {
      if (uses_var(reduction.f.bindings[iter], around[depth].variable.get())) return around[depth];
    }
    return std::nullopt;
  }

  /// Splits the reader's loop whose blocks share parts of a panel; returns the loop within a block.
  std::optional<LoopRef> split_blocks(const StepCut& cut) {
    for (auto& [iter, loop] : loops_) {
      if (iter != cut.blocked) continue;
      const auto [blocks, within] = split(schedule_, loop, cut.block);
      loop = blocks;
      return within;
    }
    return std::nullopt;
  }

  /// Splits the reader's loops into tiles: others, columns of tiles, those of `inside`, rows of tiles, then what is
  /// inside a tile.
  void tile_reader(std::int64_t rows, std::int64_t columns, const std::optional<size_t>& row_iter,
                   const std::optional<size_t>& column_iter, const std::vector<size_t>& inside = {}) {
    const std::optional<LoopRef> block = across_ && across_->cut ? split_blocks(*across_->cut) : std::nullopt;
    const std::optional<LoopRef> row = reader_loop(row_iter), column = reader_loop(column_iter),
                                 other = reader_loop(others_);
    std::vector<LoopRef> order, below_columns;
    for (const size_t i : inside) {
      if (const auto loop = reader_loop(i)) below_columns.push_back(*loop);
    }
    for (const LoopRef& loop : schedule_.loops(reader_)) {
      const bool below = std::find(below_columns.begin(), below_columns.end(), loop) != below_columns.end();
      if (!(row && loop == *row) && !(column && loop == *column) && !(other && loop == *other) && !below &&
          !(block && loop == *block))
        order.push_back(loop);
    }
    // Where plans were made for panels that stay, loops below these keep their place.
    if (!across_ && !dot_ && !far_parts_) {
      std::vector<LoopRef> around = order;
      around.insert(around.end(), below_columns.begin(), below_columns.end());
      if (auto nearer = order_around_tiles(context_, block_, reader_, loops_, around)) {
        order = std::move(*nearer);
        below_columns.clear();
      }
    }
    const bool strips = row && across_ && across_->strip > 0;
    // The loops around a tile: each over tiles where it is to be split.
    if (column) order.push_back(*column);
    order.insert(order.end(), below_columns.begin(), below_columns.end());
    if (other) order.push_back(*other);
    if (row) order.push_back(*row);
    if (row && other && others_follow_inside()) {
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      context_.note(fmt::format("keep rows of {} near while the others follow each other", block_.name));
    }
    if (!packed_ && !far_parts_ && !across_ && !dot_ && !has_makers()) {
      std::vector<TiledLoop> tiles;
      if (column) tiles.push_back({*column, columns});
      if (other) tiles.push_back({*other, paired_.others});
      if (row) tiles.push_back({*row, rows});
      if (auto nearer = order_of_tiles(context_, block_, reader_, loops_, order, tiles)) {
        order = std::move(*nearer);
        rows_of_core_ = 0;
        context_.note(fmt::format("order the loops around the tiles of {} by what lies near", block_.name));
      }
    }
    std::optional<LoopRef> inner_row, inner_column, panel, row_part, core;
    std::optional<LoopRef> shifted;     // over tiles of rows, the last of which goes inwards
    std::int64_t tasks = 1, turns = 1;  // of loops around rows; of those that walk no panels
    for (LoopRef& loop : order) {
      if (column && loop == *column) {
        std::tie(loop, inner_column) = split(schedule_, loop, columns);
        if (group_ > 1) std::tie(loop, panel) = split(schedule_, loop, group_);
        column_loop_ = loop;
      } else if (other && loop == *other) {
        std::tie(loop, reader_other_) = split(schedule_, loop, paired_.others);
      } else if (row && loop == *row) {
        const std::int64_t* extent = as_int(schedule_.node(loop).extent);
        const bool innermost = loop == order.back();
        const std::int64_t parts =
            extent && shared_tile_ && innermost && (tasks > 1 || packed_ || dot_)
                ? panel_row_parts(context_.device, *shared_tile_, *extent, tasks,
                                  static_cast<double>(turns) * shared_tile_->cycles, least_of_shifted_rows)
                : 1;
        // What other loops lie outside is shared out as well.
        const std::int64_t own = extent && innermost && parts == 1 && order.size() == 2 ? rows_of_core_ : 0;
        const bool uneven = own > 0 && *extent % own != 0;
        if (own > 0) std::tie(core, loop) = split(schedule_, loop, own);
        if (parts > 1) std::tie(row_part, loop) = split(schedule_, loop, *extent / parts);
        extent = as_int(schedule_.node(loop).extent);
        const bool shifts =
            !strips && !far_parts_ && extent &&
            (uneven || (*extent % rows != 0 && shifts_cheaply(*extent, rows, 1, least_of_shifted_rows)));
        std::tie(loop, inner_row) = split(schedule_, loop, strips ? across_->strip : rows);
        if (shifts) shifted = loop;
        continue;
      }
      const std::int64_t count = extent_estimate(schedule_.node(loop).extent);
      tasks *= count;
      if (!column_loop_ || loop != *column_loop_) turns *= count;
    }
    if (shifted) annotate(schedule_, *shifted, shift_last_key, 1);
    if (far_parts_) share_parts(context_, order);
    LATHE_CHECK(!order.empty(), "a tile has a loop around it");
    if (row && order.size() > 1) panel_loop_ = order[order.size() - 2];
    if (row_part) order.insert(order.end() - 1, *row_part);
    if (core) order.insert(order.begin(), *core);
    shares_panels_ = row_part.has_value();
    if (panel) order.push_back(*panel);
    tile_loop_ = order.back();
    if (reader_other_) order.push_back(*reader_other_);
    if (block) order.push_back(*block);
    if (inner_row) order.push_back(*inner_row);
    if (inner_column) order.push_back(*inner_column);
    reorder(schedule_, order);
    reader_row_ = inner_row;
    reader_column_ = inner_column;
    if (copy_) compute_at(schedule_, *copy_, tile_loop_);
    if (strips && copy_) {
      const LoopRef all_rows = across_->cut
                                   ? lay_parts(context_, *copy_, across_->rows, across_->vectors, across_->tile.lanes)
                                   : own_loops(schedule_, *copy_).front();
      tile_loop_ = split(schedule_, all_rows, rows).first;
    }
    if (accurate_cut_) take_accurate_parts(*accurate_cut_);
    compute_at(schedule_, block_, tile_loop_);
    outside_ = loops_of(path_to(schedule_, tile_loop_)).size();
    std::vector<LoopRef> around = schedule_.loops(block_);
    around.resize(outside_);
    place_makers(context_, block_, std::move(around), across_ ? across_->copy : dot_ ? dot_->copy : BlockRef());
  }

  /// Is a panel of the operand worth packing for all tiles of the iters that share it, `tiles` of rows among these,
  /// whose loops then lie within that over panels? Cores share out the panels.
  bool worth_packing_outside(const Access& operand, std::int64_t width, std::int64_t tiles,
                             std::int64_t columns) const {
    const Block& reduction = schedule_.node(block_);
    const std::vector<size_t> sharing = sharing_iters(shape_, operand);
    for (const size_t i : sharing) tiles *= extent_estimate(reduction.f.iters[i].domain.extent);
    return !sharing.empty() && columns >= width * context_.device.cores &&
           worth_packing(context_, reduction, shape_, operand, width, tiles);
  }

  /// Bytes between the elements of two rows in what all lanes share; 0 where nothing is, or rows do not walk it evenly.
  std::int64_t row_bytes(const Block& reduction, size_t vectors) const {
    if (!shape_.rows) return 0;
    for (const Access& access : block_accesses(reduction)) {
      const std::int64_t step = access.strides[*shape_.rows].value_or(0);
      if (!access.store && step != 0 && access.strides[vectors] == 0)
        return std::abs(step) * access.buffer->dtype.bytes();
    }
    return 0;
  }

  /// A loop of one vector of the reader's lanes, split off where the loop is longer.
  LoopRef narrow(const LoopRef& loop) {
    const std::int64_t* extent = as_int(schedule_.node(loop).extent);
    const std::int64_t lanes = std::min<std::int64_t>(lanes_, vector_lanes(schedule_.node(reader_), context_.device));
    return extent && *extent <= lanes ? loop : split(schedule_, loop, lanes).second;
  }

  /// Has the tiles over one panel of the operand ask for the next panel: hardware prefetchers follow neighbouring
  /// lines, not a walk down a column. A few iterations ahead would be worse: all lines would be wanted by the first
  /// tile alone.
  void prefetch_panel(std::int64_t columns) {
    const auto loop = steps_loop_ ? steps_loop_ : own_loop(shape_.reduce.back());
    if (loop) annotate(schedule_, *loop, "prefetch_offset", columns);
  }

  /// Has a tile ask for what it reads some steps later of a panel that waits in the second cache, where loads have no
  /// time to spare.
  void prefetch_steps(const LoopRef& steps, std::int64_t panel_bytes, std::int64_t step_elements) {
    if (multiplies_lines(context_.device) && panel_bytes > context_.device.caches.front().bytes)
      annotate(schedule_, steps, "prefetch_offset", steps_ahead * step_elements);
  }

  /// Of the operands of a paired tile, one stays near while tiles follow each other along the other: is it better that
  /// this is that of the rows, as fewer lines then come from further away?
  bool others_follow_inside() const {
    if (packed_ || !shape_.rows || !others_) return false;
    const auto lines = [&](size_t iter, std::int64_t rows) {
      return lines_of_step(schedule_.node(block_), shape_, iter, rows, lanes_);
    };
    return lines(*others_, paired_.others) < lines(*shape_.rows, paired_.rows);
  }

  /// Are there operands whose place is yet to be chosen, by the loops around the tiles?
  bool has_makers() const {
    const std::vector<BlockRef> producers = schedule_.producers(block_);
    return std::any_of(producers.begin(), producers.end(),
                       [&](const BlockRef& maker) { return !context_.scheduled.contains(maker.name); });
  }

  /// Is the operand made for each panel anew, so that it lies near and in one piece?
  bool made_by_panels(const Access& operand) const {
    if (!panel_loop_) return false;
    for (const BlockRef& maker : schedule_.producers(block_)) {
      const std::vector<LoopRef> around = schedule_.loops(maker);
      if (schedule_.node(maker).f.writes[0].buffer == operand.buffer &&
          std::find(around.begin(), around.end(), *panel_loop_) != around.end())
        return true;
    }
    return false;
  }

  /// How far the operand goes to the panel of the next tile, where that is another one.
  std::optional<std::int64_t> next_panel(const Access& operand) const {
    std::vector<LoopRef> around = schedule_.loops(block_);
    around.resize(outside_);
    return lies_by_pages(context_, shape_, operand) ? next_place(schedule_, schedule_.node(block_), around, operand)
                                                    : std::nullopt;
  }

  /// Sums up several chains apart from each other, the iterations of `chain` around the loops of a tile, and adds these
  /// up when the tile is done.
  void add_up_chains(const LoopRef& chain, const std::optional<LoopRef>& row, const std::optional<LoopRef>& column) {
    partial_ = partial_results(schedule_, block_, chain);
    set_space(schedule_, partial_, space::registers);
    unroll_tile(chain, row, column);
    std::vector<LoopRef> folding = own_loops(schedule_, block_);
    std::rotate(folding.begin(), folding.end() - 1, folding.end());
    reorder(schedule_, folding);
    unroll_tile(folding[0], row ? std::optional(folding[1]) : std::nullopt,
                column ? std::optional(folding.back()) : std::nullopt);
  }

  /// Splits the innermost of the loops over steps where a tile takes several at once; returns the loop over these. All
  /// of a loop's, where another goes on around it.
  std::optional<LoopRef> take_steps_together(const RegisterTile& tile, std::vector<LoopRef>& order) {
    const std::int64_t* steps = order.empty() ? nullptr : as_int(schedule_.node(order.back()).extent);
    if (!steps) return std::nullopt;
    double cycles = tile.cycles;
    for (const size_t i : shape_.space) {
      const std::int64_t extent = extent_estimate(schedule_.node(block_).f.iters[i].domain.extent);
      if (i != shape_.rows && i != shape_.vector_space) cycles *= static_cast<double>(extent);
    }
    const std::int64_t count = steps_together(context_.device, tile, cycles, *steps);
    if (count == 1 || (count == *steps && order.size() == 1)) return std::nullopt;
    if (count < *steps) {
      const auto [outer, inner] = split(schedule_, order.back(), count);
      order.back() = outer;
      order.push_back(inner);
    }
    steps_loop_ = order[order.size() - 2];
    return order.back();
  }

  /// The same where it pays; elsewhere has steps ask for the lines of results that are stored right behind them.
  std::optional<LoopRef> lay_steps(const RegisterTile& tile, std::vector<LoopRef>& order) {
    const std::optional<LoopRef> together = take_steps_together(tile, order);
    if (!together && !across_ && !copy_) ask_for_results(context_, block_, reader_, tile.rows, order);
    return together;
  }

  /// The innermost loop that chains share evenly, or one so long that a few steps too many do not matter.
  std::optional<LoopRef> divisible(const std::vector<LoopRef>& loops, std::int64_t chains) const {
    for (size_t i = loops.size(); i-- > 0;) {
      const std::int64_t* extent = as_int(schedule_.node(loops[i]).extent);
      if (extent && (*extent % chains == 0 || *extent >= 4 * chains)) return loops[i];
    }
    return std::nullopt;
  }

  void unroll_tile(const std::optional<LoopRef>& chain, const std::optional<LoopRef>& row,
                   const std::optional<LoopRef>& column) {
    if (chain) unroll(schedule_, *chain);
    if (row) unroll(schedule_, *row);
    if (column) vectorize_columns(schedule_, *column, lanes_);
  }

  /// The extent of an iter, or the most that it can be; nothing where no fact bounds it.
  std::optional<std::int64_t> most_of(const Block& block, size_t iter) const {
    return greatest_extent(block.f.iters[iter].domain.extent, schedule_.func());
  }

  /// Steps of the whole reduction, where that is known.
  std::optional<std::int64_t> depth_of(const Block& reduction) const {
    std::int64_t depth = 1;
    for (const size_t i : shape_.reduce) {
      const auto extent = most_of(reduction, i);
      if (!extent) return std::nullopt;
      depth *= *extent;
    }
    // A dot product takes a group of steps at a time.
    return dot_ ? depth / dot_->group : depth;
  }

  /// Has vectors lie whole in registers where the result has another dimension last.
  void lay_lanes_last(size_t vectors) {
    const Block& reduction = schedule_.node(block_);
    const Region& result = reduction.f.writes[0];
    if (result.buffer->space != space::registers) return;
    for (size_t d = 0; d + 1 < result.ranges.size(); ++d) {
      if (!(result.ranges[d].min == Expr(reduction.f.iters[vectors].variable))) continue;
      transform_layout(schedule_, block_, result.buffer->name, moved_last(result.ranges.size(), d));
      return;
    }
  }

  void along_space(size_t vectors) {
    lay_lanes_last(vectors);
    const Block& reduction = schedule_.node(block_);
    const bool shared = shape_.rows || across_ || dot_;
    if (!shared) shape_.rows = independent_rows(reduction, shape_, vectors);
    if (!across_ && !dot_ && !paired_rows(reduction, shape_, vectors)) {
      if (const auto nearer = nearer_rows(context_, reduction, shape_, vectors)) shape_.rows = nearer;
    }
    const auto rows = shape_.rows ? most_of(reduction, *shape_.rows) : std::optional<std::int64_t>(1);
    const auto columns = most_of(reduction, vectors);
    const bool in_runs = shape_.column_run > 0;
    if (!dot_ && !across_) others_ = paired_rows(reduction, shape_, vectors);
    const auto others = others_ ? most_of(reduction, *others_) : std::nullopt, depth = depth_of(reduction);
    if (rows && others && columns && depth) {
      paired_ = choose_paired_tile(context_.device, lanes_, widest_bits(reduction), *rows, *others, *columns, *depth);
    } else {
      others_.reset();
    }
    const RegisterTile tile =
        across_   ? across_->tile
        : others_ ? RegisterTile{paired_.rows, 1, paired_.lanes, 1, paired_.cycles}
                  : choose_tile(context_.device, lanes_, widest_bits(reduction),
                                {rows, in_runs ? shape_.column_run : columns, depth, shape_.row_run, in_runs, shared,
                                 false, row_bytes(reduction, vectors), shared ? 0 : term_cycles(reduction, vectors)});
    if (in_runs && tile.cycles == 0) throw Refusal("tile_contractions", 0, "no tile stays in a run of columns");
    if (tile.rows == 1 && !shared) shape_.rows.reset();
    lanes_ = tile.lanes;
    const std::optional<Access> operand = shape_.rows ? vector_operand(reduction, *shape_.rows, vectors) : std::nullopt;
    const bool far = operand && !across_ && !shape_.reduce.empty() && lies_scattered(reduction, shape_, *operand);
    const bool pays = operand && rows && !across_ && !dot_ &&
                      worth_packing(context_, reduction, shape_, *operand, tile.vectors * lanes_, *rows / tile.rows);
    const std::int64_t width = tile.vectors * lanes_, column_bytes = depth.value_or(0) * widest_bits(reduction) / 8,
                       panel_bytes = width * column_bytes;
    const bool whole_panels = columns && *columns % width == 0;
    // What loops outside of the panels share would be turned around anew by each of their iterations.
    const bool turns_panels = turned_ && operand && shape_.rows && whole_panels && *columns > width &&
                              sharing_iters(shape_, *operand).empty();
    if (turned_ && !turns_panels) turn_copy(context_, block_, *turned_);
    const bool by_panels = operand && !across_ && !dot_ && !turns_panels &&
                           lay_by_panels(context_, block_, operand->buffer, vectors, tile.vectors * lanes_);
    const bool pays_outside = operand && rows && columns && !pays && !turns_panels && !by_panels && !across_ && !dot_ &&
                              !others_ && worth_packing_outside(*operand, width, *rows / tile.rows, *columns);
    bool packed = turns_panels || (pays && !by_panels) || pays_outside;
    // A shorter last panel would be a group of its own, with further bodies.
    if (packed && rows && whole_panels)
      group_ = panels_together(context_.device, *rows * column_bytes, panel_bytes, *columns / width);
    if (columns && !dot_ && !across_) pack_rows(context_, block_, shape_, tile.rows, (*columns + width - 1) / width);
    const bool panels_outside = operand && (!packed || pays_outside) && !(across_ && across_->panels_inside);
    std::vector<size_t> inside = panels_outside ? sharing_iters(shape_, *operand) : std::vector<size_t>();
    if (others_) std::erase(inside, *others_);
    if (panels_outside && across_) {
      // A panel is packed once for all of these; where it stays near as a whole, what they share besides does, too.
      const std::vector<size_t> sliding = sliding_iters(schedule_.node(block_), shape_, *operand);
      const bool near = across_->panel_stays_near;
      inside.insert(near ? inside.end() : inside.begin(), sliding.begin(), sliding.end());
    }
    if (!dot_ && !across_ && !others_ && shape_.rows && rows && columns && (!packed || (pays && group_ == 1))) {
      const std::int64_t packed_vectors = packed ? depth.value_or(0) * *columns / lanes_ : 0;
      rows_of_core_ = rows_of_core(context_.device, tile, *rows, *columns,
                                   pack_cycles * static_cast<double>(packed_vectors), least_of_shifted_rows);
    }
    packed_ = packed;
    if (operand && shape_.rows && !across_ && !pays_outside && whole_panels) shared_tile_ = tile;
    if (shared && !across_ && !dot_ && !others_ && !far_parts_ && tile.chains == 1)
      accurate_cut_ = plan_accurate_cut(schedule_.node(block_), shape_);
    tile_reader(tile.rows, tile.vectors * lanes_, shape_.rows, vectors, inside);
    const std::int64_t panel_width = group_ > 1 || shares_panels_ ? width : 0;
    if (turns_panels) {
      if (panel_loop_) compute_at(schedule_, turned_->copy, *panel_loop_);
      turn_copy(context_, block_, *turned_, panel_width);
    } else {
      const std::optional<LoopRef>& around = pays_outside ? column_loop_ : panel_loop_;
      packed = packed && around &&
               pack_panel(context_, block_, operand->buffer->name, vectors, lanes_, *around, panel_width);
    }
    // Panels that are made for all parts of rows at once lie one behind another all the same.
    if (operand && shares_panels_ && !packed && made_by_panels(*operand))
      make_by_panels(context_, block_, operand->buffer, vectors, lanes_, width);
    if (across_ && column_loop_) pack_across(context_, block_, *across_, *column_loop_);
    if (dot_) {
      if (panel_loop_) compute_at(schedule_, dot_->copy, *panel_loop_);
      pack_groups(context_, block_, *dot_, lanes_, shares_panels_ ? width : 0);
    }

    std::vector<LoopRef> order;
    std::optional<LoopRef> groups, group;
    for (const size_t i : shape_.reduce) {
      const auto loop = own_loop(i);
      if (loop && dot_ && i == dot_->step) {
        const auto [outer, inner] = split(schedule_, *loop, dot_->group);
        groups = outer;
        group = inner;
        order.push_back(outer);
      } else if (loop) {
        order.push_back(*loop);
      }
    }
    std::optional<LoopRef> chain;
    if (const auto divided = tile.chains > 1 && !dot_ ? divisible(order, tile.chains) : std::nullopt) {
      const auto [steps, inner] = split(schedule_, *divided, tile.chains);
      std::replace(order.begin(), order.end(), *divided, steps);
      order.push_back(inner);
      chain = inner;
    }
    std::optional<LoopRef> together;
    if (shared && !others_ && !dot_ && !chain) together = lay_steps(tile, order);
    const std::optional<LoopRef> first = order.empty() ? std::nullopt : std::optional(order.front());
    const size_t inner_steps = (chain ? 1 : 0) + (together ? 1 : 0);
    if (!across_ && !dot_ && order.size() > inner_steps) {
      const LoopRef& steps = order[order.size() - 1 - inner_steps];
      if (far_parts_) {
        ask_next_part(context_, *far_parts_, steps);
      } else {
        ask_next_tile(context_, block_, steps, outside_);
      }
    }
    const std::optional<LoopRef> row = shape_.rows ? own_loop(*shape_.rows) : std::nullopt;
    const std::optional<LoopRef> column = own_loop(vectors), other = others_ ? own_loop(*others_) : std::nullopt;
    if (other) order.push_back(*other);
    if (row) order.push_back(*row);
    if (column) order.push_back(*column);
    if (group) order.push_back(*group);
    reorder(schedule_, order);
    if (chain) {
      add_up_chains(*chain, row, column);
    } else {
      unroll_tile(std::nullopt, row, column);
    }
    if (together) unroll(schedule_, *together);
    if (other) unroll(schedule_, *other);
    if (first) decompose_reduction(schedule_, chain ? partial_ : block_, *first);
    if (groups && dot_ && operand) {
      const std::int64_t step = width * dot_->group;
      prefetch_steps(*groups, depth.value_or(0) * step * operand->buffer->dtype.bytes(), step);
    }
    if (group && dot_) mark_groups(context_, *group, *dot_);
    if (operand && !across_ && !by_panels && !packed && !dot_ && !chain && !made_by_panels(*operand)) {
      const bool once = rows && *rows <= tile.rows;
      const auto next = far ? tile.vectors * lanes_ : once ? next_panel(*operand) : std::nullopt;
      if (next) prefetch_panel(*next);
    }
    if (packed && together) {
      prefetch_panel(short_steps_ahead * width);
    } else if (packed && !chain) {
      if (const auto steps = own_loop(shape_.reduce.back())) prefetch_steps(*steps, panel_bytes, width);
    }
    if (copy_) {
      std::vector<LoopRef> copied = schedule_.loops(*copy_);
      // A loop over parts of sums is around the tile's steps alone.
      copied.erase(copied.begin(), copied.begin() + static_cast<std::ptrdiff_t>(outside_ - (accurate_cut_ ? 1 : 0)));
      if (!copied.empty() && column) {
        for (size_t i = 0; i + 1 < copied.size(); ++i) unroll(schedule_, copied[i]);
        vectorize_columns(schedule_, copied.back(), lanes_);
      }
      if (across_ && reader_row_ && reader_column_) {
        store_across(context_, reader_, *across_, *reader_row_, *reader_column_);
      } else if (reader_column_) {
        vectorize(schedule_, narrow(*reader_column_));
      }
    } else {
      if (reader_other_) unroll(schedule_, *reader_other_);
      if (reader_row_) unroll(schedule_, *reader_row_);
      if (reader_column_) vectorize_columns(schedule_, *reader_column_, lanes_);
    }
    context_.note(fmt::format("tile {}: {} rows x {} vectors of {} lanes{}", block_.name, tile.rows,
                              others_ ? paired_.others : tile.vectors, lanes_,
                              others_ ? " of either operand"
                              : dot_  ? fmt::format(" of {}", dot_->intrinsic->name)
                              : chain ? fmt::format(" in {} chains", tile.chains)
                                      : ""));
  }

  /// Folds the columns of a tile together where whole groups of them make up the dimension.
  void fold(const std::optional<size_t>& columns, std::int64_t column_tile) {
    const auto extent = columns ? constant_extent(schedule_.node(block_), *columns) : std::nullopt;
    if (extent && column_tile > 1 && column_tile <= lanes_ && *extent % column_tile == 0) {
      const std::vector<LoopRef> loops = schedule_.loops(block_);
      fold_columns(schedule_, block_, loops[loops.size() - 2], lanes_);
    } else {
      fold_lanes(schedule_, block_, lanes_);
    }
  }

  void along_reduction(size_t vectors) {
    const Block& reduction = schedule_.node(block_);
    const std::optional<size_t> rows = shape_.rows, columns = shape_.columns;
    const auto extent = [&](const std::optional<size_t>& iter) {
      return iter ? most_of(reduction, *iter) : std::optional<std::int64_t>(1);
    };
    const auto [row_tile, column_tile] =
        choose_dot_tile(context_.device, {extent(rows), extent(columns), extent(vectors)});
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
    while (reduce_extent && lanes_ > *reduce_extent && lanes_ > 2) lanes_ /= 2;
    tile_reader(row_tile, panel, rows, columns);

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
    fold(columns, column_tile);
    if (reader_column_) vectorize(schedule_, narrow(*reader_column_));
    context_.note(fmt::format("tile {}: {} x {} dot products of {} lanes", block_.name, row_tile, column_tile, lanes_));
  }

  RuleContext& context_;
  Schedule& schedule_;
  BlockRef block_, reader_;
  BlockRef partial_;              ///< of the chains, where there are several
  std::optional<BlockRef> copy_;  ///< between the two, for a costly epilogue
  ReductionShape shape_;
  std::optional<TurnedCopy> turned_;
  std::optional<DotPlan> dot_;
  std::optional<AcrossPlan> across_;
  std::int64_t lanes_ = 1;
  std::vector<std::pair<size_t, LoopRef>> loops_;  ///< the reduction's iters, and the reader's loops for them
  LoopRef tile_loop_;                              ///< the innermost loop outside of a tile
  std::optional<LoopRef> panel_loop_;   ///< the loop around it: the tiles below it share the operand that vectors walk
  std::optional<LoopRef> column_loop_;  ///< over panels, where vectors walk columns
  std::optional<LoopRef> reader_row_, reader_column_, reader_other_;
  std::optional<size_t> others_;  ///< rows of the other operand, where both lie along the vectors
  PairedTile paired_;
  std::optional<FarParts> far_parts_;
  std::optional<StepCut> accurate_cut_;      ///< of a tile's own sums
  std::optional<LoopRef> steps_loop_;        ///< around the steps that a tile takes at once
  size_t outside_ = 0;                       ///< loops around the tile
  std::int64_t rows_of_core_ = 0;            ///< where each core takes rows of its own, or 0
  std::optional<RegisterTile> shared_tile_;  ///< of rows that cores may share out
  bool shares_panels_ = false;               ///< parts of rows do
  bool packed_ = false;                      ///< panels are: loops over tiles stay inside of that
  std::int64_t group_ = 1;                   ///< panels that a strip of rows meets one after another
};

}  // namespace

void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const std::optional<TurnedCopy>& turned) {
  Tiler(context, reduction, shape, turned).run();
}

void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape, const DotPlan& plan) {
  Tiler(context, reduction, shape, plan).run();
}

void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const AcrossPlan& plan) {
  Tiler(context, reduction, shape, plan).run();
}

}  // namespace lathe
