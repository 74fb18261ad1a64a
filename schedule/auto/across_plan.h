#pragma once
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/cut_steps.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// A tile of a contraction whose vectors lie across memory: the elements of the result that they hold are neighbours
/// in no buffer of the program, and are on their way through copies.
struct AcrossPlan {
  size_t vectors, rows;   ///< iters of the reduction: what vectors walk, and what is contiguous in the result
  Buffer operand;         ///< the one that the vectors walk
  size_t dimension;       ///< its dimension that they walk
  std::int64_t side = 1;  ///< of the squares that turn results around; 1 where they are stored one by one
  RegisterTile tile = {};
  /// Rows whose results are kept until all their tiles are done, and then turned around together, in whole squares
  /// whatever the rows of a tile; 0 where each tile stores its own.
  std::int64_t strip = 0;
  /// All panels of the operand for each step of the loops that share them: where these walk more of the other operands
  /// than stays near, and the panels together stay.
  bool panels_inside = false;
  bool panel_stays_near = false;  ///< a panel, in the second cache
  /// Sums are added up in the strip part by part, so that it holds those of a block of rows' rows.
  std::optional<StepCut> cut = {};
  bool stores_for_reader = false;  ///< results in memory, as what reads them is too long for each square
  double cycles = 0;               ///< estimated, copies included
  BlockRef copy = {};              ///< once staged: of the operand, the vectors' dimension last
};

/// Vectors along what would be the rows of a tile, and rows along what its vectors would walk, where that is estimated
/// to be faster: where the contiguous axis of the result is so short that it leaves lanes idle, for a price of copies
/// of an operand and of the result. Nothing else about the contraction matters.
std::optional<AcrossPlan> plan_across(const RuleContext& context, const BlockRef& reduction,
                                      const ReductionShape& shape);

}  // namespace lathe
