#pragma once
/// A sum, and the sum of squares of how far its terms lie from their mean: what shift_squares matches.
#include <optional>
#include <string>
#include <vector>

#include "ir/reduction.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"
#include "schedule/schedule.h"

namespace lathe {

/// Expressions are over the iters of `sum`.
struct MeanSquares {
  Path sum, squares;                    ///< to the blocks
  size_t sum_own = 0, squares_own = 0;  ///< levels in the paths of the outermost loops around each alone
  ReductionOutput total, squared;
  Expr term;                 ///< of the sum, with its lets put in
  std::int64_t count = 1;    ///< of the terms
  bool total_needed = true;  ///< by others than squares
  Stmt mean_nest;            ///< makes a mean that squares alone read; nothing where others do
  Buffer mean;               ///< what it writes

  const Block& sum_block() const { return *sum.back().as<Block>(); }
  const Block& squares_block() const { return *squares.back().as<Block>(); }
  DType dtype() const { return total.buffer->dtype; }
};

/// Why two blocks are no such pair: the number of the condition of shift_squares that does not hold, and where.
struct NoMeanSquares {
  int condition = 0;
  Stmt culprit;
  std::string note;
};

/// Fills in `found`, or says why not.
std::optional<NoMeanSquares> match_mean_squares(const Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                                MeanSquares& found);
/// The same, refusing by those conditions.
MeanSquares require_mean_squares(const Schedule& schedule, const std::string& application, const BlockRef& sum,
                                 const BlockRef& squares);

/// The Func with what `in_place` has where the sum's nest stands, and `behind` where that of the squares does.
Stmt replace_mean_squares(const MeanSquares& pair, const std::vector<Stmt>& in_place, const std::vector<Stmt>& behind);

}  // namespace lathe
