#pragma once
/// What tile_reduction cuts tiles with: parts of one rule, which share what they learn of the tiles.
#include <optional>
#include <utility>
#include <vector>

#include "schedule/auto/contraction.h"
#include "schedule/auto/cut_steps.h"
#include "schedule/auto/dot_products.h"
#include "schedule/auto/far_parts.h"
#include "schedule/auto/paired_tile.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/turn_operands.h"
#include "schedule/auto/vectors_across.h"
#include "schedule/auto/windows.h"

namespace lathe {

class Tiler {
 public:
  Tiler(RuleContext& context, const BlockRef& block, const ReductionShape& shape, std::optional<TurnedCopy> turned)
      : context_(context), schedule_(context.schedule), block_(block), shape_(shape), turned_(std::move(turned)) {}
  Tiler(RuleContext& context, const BlockRef& block, const ReductionShape& shape, const DotPlan& dot)
      : context_(context), schedule_(context.schedule), block_(block), shape_(shape), dot_(dot) {}
  Tiler(RuleContext& context, const BlockRef& block, const ReductionShape& shape, const AcrossPlan& across)
      : context_(context), schedule_(context.schedule), block_(block), shape_(shape), across_(across) {}

  void run();

 private:
  /// A last tile is shifted to where its rows are whole if no more than one row in so many is computed only for that: a
  /// body of its own takes up to half of a product's compile time, which one of 64 to 512 rows pays with 0 to 2
  /// percent.
  static constexpr std::int64_t least_of_shifted_rows = 32;

  /// Rows and columns of a tile, each with the iter of the reduction that walks them.
  struct TileShape {
    std::int64_t rows, columns;
    std::optional<size_t> row_iter, column_iter;
  };
  /// The reader's loops over these, over rows of the other operand, and within a block whose columns share parts of a
  /// panel.
  struct ReaderLoops {
    std::optional<LoopRef> row, column, other, block;
    bool has(const LoopRef& loop) const { return row == loop || column == loop || other == loop || block == loop; }
  };
  /// What splitting the loops around tiles leaves beside these.
  struct SplitLoops {
    std::optional<LoopRef> row, column;  ///< within a tile
    std::optional<LoopRef> panel;        ///< over the panels of a group
    std::optional<LoopRef> row_part;     ///< over parts of rows that cores share out
    std::optional<LoopRef> core;         ///< over what is a core's own
  };
  /// What is decided of tiles whose vectors walk results.
  struct SpacePlan {
    size_t vectors;
    std::optional<std::int64_t> rows, columns, depth;  ///< extents, where known
    bool shared = false;                               ///< rows share the vectors' operand, and no windows
    RegisterTile tile;
    std::optional<Access> operand;             ///< that vectors walk and rows share
    std::int64_t width = 0, column_bytes = 0;  ///< elements of a tile's vectors; bytes of one column of the operand
    bool far = false;                          ///< the operand's lines lie scattered
    bool pays = false, pays_outside = false;   ///< packing does: for the rows; for what else shares a panel
    bool whole_panels = false;                 ///< tiles make up the columns
    bool turns_panels = false, by_panels = false, packed = false;
    bool stacks_panels = false;  ///< several can lie one behind the other
    std::int64_t panel_bytes() const { return width * column_bytes; }
  };
  /// The loops of a tile, within those over its steps.
  struct StepLoops {
    std::vector<LoopRef> order;              ///< over steps
    std::optional<LoopRef> groups, group;    ///< over steps that a dot product takes at once
    std::optional<LoopRef> chain, together;  ///< over sums apart from each other; over steps at once
    std::optional<LoopRef> row, column, other;
    std::optional<LoopRef> outermost() const { return order.empty() ? std::nullopt : std::optional(order.front()); }
  };

  // The block that stores tiles, and parts of sums (tile_reduction.cpp).

  /// The block that stores what the tile holds: the one element-wise reader, or a new copy.
  void find_reader();
  /// Does the reader nothing but round to bf16 what comes from products of bf16, which is one instruction (emission
  /// knows that these leave no denormals)?
  bool rounds_dots() const;
  /// Turns the operand and the result around, so that the plan's vectors walk both; the reader turns it back.
  void lay_across(AcrossPlan& plan);
  /// Has tiles make parts of sums, which the block that was adds up where results are kept.
  void take_parts(const StepCut& cut);
  /// The same where the results are those of the program: what adds parts up reads what tiles hold.
  void add_up_parts(const StepCut& cut);
  bool adds_up_parts() const { return far_parts_ || deep_cut_; }
  /// Of the loops around a tile's steps, the innermost that are over parts of these.
  size_t part_loops() const { return accurate_cut_ ? 1 : 0; }
  /// Has each tile take a long sum in parts, one behind another.
  void take_accurate_parts(const StepCut& cut);

  // Loops around tiles (tiler_loops.cpp).

  /// The reader's loop for an iter of the reduction.
  std::optional<LoopRef> reader_loop(const std::optional<size_t>& iter) const;
  /// The loop of the reduction that one of its iters is bound to, alone or plus what is outside.
  std::optional<LoopRef> own_loop(size_t iter) const;
  /// Splits the reader's loop whose blocks share parts of a panel; returns the loop within a block.
  std::optional<LoopRef> split_blocks(const StepCut& cut);
  /// Splits the reader's loops into tiles: others, columns of tiles, those of `inside`, rows of tiles, then what is
  /// inside a tile; and moves the reduction under these.
  void tile_reader(const TileShape& tile, const std::vector<size_t>& inside = {});
  /// The reader's loops around tiles, by what then lies near: outermost first, and none split yet.
  std::vector<LoopRef> order_loops(const TileShape& tile, const ReaderLoops& loops, const std::vector<size_t>& inside);
  /// Do fewer lines of dot products come from further away where each tile of rows walks all panels, as where results
  /// leave the caches and panels do not?
  bool walks_panels_inside(const TileShape& tile, const ReaderLoops& loops, const std::vector<LoopRef>& order) const;
  /// Do all panels of the plan's operand stay near while rows of tiles follow each other, so that cores may share out
  /// the rows? Columns, which they share out else, are parts of the same rows of results: each core takes lines away
  /// from the other that lie beside its own. But an operand that is made for the reduction is made panel by panel
  /// there, by the core that reads it (measured on Zen 4, two threads, f16 of 32x512x64 and 200x600x100: 0.5 and 0.9 of
  /// the time).
  bool shares_out_rows(const SpacePlan& plan) const;
  /// Has each core take panels of its own through all parts of deep sums, the outermost loop of `order`; where there
  /// are too few, its panels part by part.
  void share_panels(std::vector<LoopRef>& order);
  /// Splits these, and leaves in `order` the loops over tiles.
  SplitLoops split_loops(const TileShape& tile, const ReaderLoops& loops, std::vector<LoopRef>& order);
  /// Splits the loop over rows, and before that into `parts` or by `own` rows where cores share them out; returns that
  /// over tiles, the last of which may go inwards.
  LoopRef split_rows(const TileShape& tile, LoopRef loop, std::int64_t parts, std::int64_t own, SplitLoops& found);
  /// Moves the reduction into the tile, after what stands between it and its reader.
  void place_in_tile(std::int64_t rows);
  /// Of the operands of a paired tile, one stays near while tiles follow each other along the other: is it better that
  /// this is that of the rows, as fewer lines then come from further away?
  bool others_follow_inside() const;
  /// Is the operand, or any where none is given, made by a block whose place is yet to be chosen, by the loops around
  /// the tiles?
  bool has_maker(const Buffer& operand = nullptr) const;

  // What each core makes for itself (tiler_cores.cpp).

  /// Which of the loops around tiles cores share out: rows, where each core takes some of its own, or the first over
  /// several tiles.
  size_t shared_loop(const TileShape& tile, const ReaderLoops& loops, const std::vector<LoopRef>& order) const;
  /// The blocks that do nothing but widen an operand all of which each iteration of the loop `shared` of these reads,
  /// where each core had better make it for itself: lines of what another has made come late.
  std::vector<BlockRef> makers_for_cores(const std::vector<LoopRef>& order, size_t shared) const;
  /// Has each core take as many iterations of that loop as others; returns the loop over cores, the outermost then.
  /// Nothing where these are no equal shares.
  std::optional<LoopRef> share_out(std::vector<LoopRef>& order, size_t shared);
  void make_for_cores(const LoopRef& core);

  // Vectors along results (tiler_space.cpp).

  void along_space(size_t vectors);
  /// Has vectors lie whole in registers where the result has another dimension last.
  void lay_lanes_last(size_t vectors);
  RegisterTile choose_space_tile(size_t vectors, const SpacePlan& plan);
  /// The tile, and what it reads.
  SpacePlan plan_space(size_t vectors);
  /// Where and how the operand that vectors walk is packed.
  void plan_panels(SpacePlan& plan);
  /// Bytes of what all columns of the plan share and each row has of its own; 0 where extents are not known.
  std::int64_t bytes_of_rows(const SpacePlan& plan) const;
  /// How many of its panels are packed at a time.
  std::int64_t panels_of_group(const SpacePlan& plan) const;
  /// The iters of which loops lie between panels and rows of tiles.
  std::vector<size_t> iters_inside_panels(const SpacePlan& plan) const;
  /// Packs it, now that the loops around tiles stand.
  void lay_panels(SpacePlan& plan);
  /// Orders the loops of a tile: over steps, then over what it holds.
  StepLoops lay_step_loops(const SpacePlan& plan);
  /// Has steps ask for rows that are packed, where hardware would come late; says whether it did.
  bool ask_for_packed_rows(const RegisterTile& tile, const LoopRef& steps);
  /// Has steps ask for what tiles read later of the operand that vectors walk.
  void ask_in_steps(const SpacePlan& plan, const StepLoops& loops);
  /// The loops of the blocks that take what a tile holds.
  void store_tile(const StepLoops& loops);
  /// Is a panel of the plan's operand worth packing for all tiles of the iters that share it, `tiles` of rows among
  /// these, whose loops then lie within that over panels? Cores share out the panels.
  bool worth_packing_outside(const SpacePlan& plan, std::int64_t tiles) const;
  /// Bytes between the elements of two rows in what all lanes share; 0 where nothing is, or rows do not walk it evenly.
  std::int64_t row_bytes(const Block& reduction, size_t vectors) const;
  /// A loop of one vector of the reader's lanes, split off where the loop is longer.
  LoopRef narrow(const LoopRef& loop);
  /// Lanes of the reader's vectors, which may be wider elements than the reduction's.
  std::int64_t reader_lanes() const;
  /// Has the tiles over one panel of the operand ask for the next panel: hardware prefetchers follow neighbouring
  /// lines, not a walk down a column. A few iterations ahead would be worse: all lines would be wanted by the first
  /// tile alone.
  void prefetch_panel(std::int64_t columns);
  /// Has a tile ask for what it reads some steps later of a panel that waits in the second cache, where loads have no
  /// time to spare.
  void prefetch_steps(const LoopRef& steps, std::int64_t panel_bytes, std::int64_t step_elements);
  /// Is the operand made for each panel anew, so that it lies near and in one piece?
  bool made_by_panels(const Access& operand) const;
  /// How far the operand that vectors walk goes to the panel of the next tile, where that is another one.
  std::optional<std::int64_t> next_panel(size_t vectors) const;
  /// Sums up several chains apart from each other, the iterations of `chain` around the loops of a tile, and adds these
  /// up when the tile is done.
  void add_up_chains(const LoopRef& chain, const std::optional<LoopRef>& row, const std::optional<LoopRef>& column);
  /// Are there fewer of these steps for some results? Side by side each would ask whether it is one.
  bool is_bounded(const LoopRef& steps) const;
  /// Puts short loops whose length changes around the others: what a loop of a few steps takes to set up would come
  /// with each of their steps.
  void walk_short_steps_outside();
  /// Splits the innermost of the loops over steps where a tile takes several at once; returns the loop over these. All
  /// of a loop's, where another goes on around it.
  std::optional<LoopRef> take_steps_together(const RegisterTile& tile, std::vector<LoopRef>& order);
  /// The same where it pays; elsewhere has steps ask for the lines of results that are stored right behind them.
  std::optional<LoopRef> lay_steps(const RegisterTile& tile, std::vector<LoopRef>& order);
  /// Unrolls the innermost of the loops over steps, as long as few copies of the tile's updates come of it; where that
  /// is all of them, each vector of maxima takes its steps behind another's.
  void unroll_few_steps(const std::vector<LoopRef>& order, const RegisterTile& tile, size_t vectors);
  /// Takes all steps of windows that overlap in one body, vector by vector and their rows innermost, which share what
  /// they load while it is in registers. Leaves the loops over steps as they are then nested. Where a tile takes turns
  /// over the steps in which rows meet, each is a body, step by step.
  void take_windows(StepLoops& loops, bool in_turns);
  /// Keeps conditions by which all lanes of a vector are loaded, or none, from being asked by further bodies: zeros are
  /// loaded instead, which takes less time than it takes to compile these.
  void keep_masks(size_t vectors);
  /// How many copies those may be, where vectors walk the iter.
  std::int64_t most_updates(size_t vectors) const;
  /// The innermost loop that chains share evenly, or one so long that a few steps too many do not matter.
  std::optional<LoopRef> divisible(const std::vector<LoopRef>& loops, std::int64_t chains) const;
  void unroll_tile(const std::optional<LoopRef>& chain, const std::optional<LoopRef>& row,
                   const std::optional<LoopRef>& column);
  /// The extent of an iter, or the most that it can be; nothing where no fact bounds it.
  std::optional<std::int64_t> most_of(const Block& block, size_t iter) const;
  /// Are windows by steps summed of rows that others have summed, which registers hold then (join_windows)? Such rows
  /// take turns with those, one at a time.
  bool picks_windows_of_rows(size_t vectors) const;
  /// Are the block's results such rows?
  bool has_rows_to_pick() const;
  /// Steps of the whole reduction, where that is known.
  std::optional<std::int64_t> depth_of(const Block& reduction) const;

  // Vectors along the reduction (tiler_dots.cpp).

  void along_reduction(size_t vectors);
  /// What makes an operand of which one step of one tile alone reads each element.
  std::optional<BlockRef> maker_for_steps(std::int64_t row_tile, size_t vectors) const;
  /// Makes that there, in registers.
  void make_in_steps(const BlockRef& maker, const BlockRef& partial);
  /// Folds the columns of a tile together where whole groups of them make up the dimension.
  void fold(const std::optional<size_t>& columns, std::int64_t column_tile);

  RuleContext& context_;
  Schedule& schedule_;
  BlockRef block_, reader_;
  BlockRef partial_;                  ///< of the chains, where there are several
  std::optional<BlockRef> copy_;      ///< between the two, for a costly epilogue
  std::optional<BlockRef> in_steps_;  ///< makes what steps read, and is placed last
  ReductionShape shape_;
  std::optional<TurnedCopy> turned_;
  std::optional<DotPlan> dot_;
  bool rows_outside_ = false;  ///< of all panels of dot products, which lie one behind another
  std::optional<AcrossPlan> across_;
  std::int64_t lanes_ = 1;
  int bits_ = 0;                                   ///< of an element of the vectors
  std::vector<std::pair<size_t, LoopRef>> loops_;  ///< the reduction's iters, and the reader's loops for them
  LoopRef tile_loop_;                              ///< the innermost loop outside of a tile
  /// The loop around it: the tiles below it share the operand that vectors walk. Of rows outside, that around the rows.
  std::optional<LoopRef> panel_loop_;
  std::optional<LoopRef> column_loop_;  ///< over panels, where vectors walk columns
  std::optional<LoopRef> reader_row_, reader_column_, reader_other_;
  std::optional<Windows> windows_;  ///< of rows that share what they load
  std::optional<size_t> others_;    ///< rows of the other operand, where both lie along the vectors
  PairedTile paired_;
  std::optional<FarParts> far_parts_;
  std::optional<StepCut> deep_cut_;          ///< of sums that tiles take up again part by part
  std::optional<StepCut> accurate_cut_;      ///< of a tile's own sums
  std::optional<LoopRef> steps_loop_;        ///< around the steps that a tile takes at once
  size_t outside_ = 0;                       ///< loops around the tile's steps
  std::vector<BlockRef> makers_;             ///< of operands that each core makes for itself
  std::optional<LoopRef> core_loop_;         ///< over cores, under which they are
  std::int64_t rows_of_core_ = 0;            ///< where each core takes rows of its own, or 0
  std::optional<RegisterTile> shared_tile_;  ///< of rows that cores may share out
  bool shares_panels_ = false;               ///< parts of rows do
  bool shares_rows_ = false;                 ///< cores share out rows of tiles, each of which walks all panels
  bool packed_ = false;                      ///< panels are: loops over tiles stay inside of that
  bool packs_rows_ = false;                  ///< rows are: one stream, which the tiles of a panel read
  std::int64_t group_ = 1;                   ///< panels that a strip of rows meets one after another
};

}  // namespace lathe
