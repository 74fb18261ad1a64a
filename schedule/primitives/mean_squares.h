#pragma once
/// A sum, and the sum of squares of how far its terms lie from their mean: what part_squares and walk_squares match.
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
  Path sum, squares;       ///< to the blocks
  size_t own = 0;          ///< level in the path of the outermost loop around `sum` alone
  size_t squares_own = 0;  ///< the same of `squares`
  ReductionOutput total, squared;
  Expr term;  ///< of the sum, with its lets put in
  Expr mean;  ///< what the squares take off it
  std::int64_t count = 0;

  const Block& sum_block() const { return *sum.back().as<Block>(); }
  const Block& squares_block() const { return *squares.back().as<Block>(); }
  DType dtype() const { return total.buffer->dtype; }
  /// The loops around `sum` alone, outermost first.
  std::vector<const For*> loops() const {
    return loops_of(Path(sum.begin() + static_cast<std::ptrdiff_t>(own), sum.end()));
  }
};

/// Why two blocks are no such pair: the condition that does not hold, by its place in mean_squares_conditions.
struct NoMeanSquares {
  int condition = 0;
  Stmt culprit;
  std::string note;
};
extern const char* const mean_squares_conditions[4];

/// Fills in `found`, or says why not.
std::optional<NoMeanSquares> match_mean_squares(const Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                                MeanSquares& found);
/// The same, refusing by those conditions.
MeanSquares require_mean_squares(const Schedule& schedule, const std::string& application, const BlockRef& sum,
                                 const BlockRef& squares);

/// A nest that is made in the order of the sum's loops: one iter for each.
struct MeanSquaresNest {
  Block::Fields fields;
  std::vector<Range> ranges;
  Substitution iters;  ///< the sum's iters, over these

  /// Of each loop says `kind`; loops without one are left out, and so must be what they drive.
  MeanSquaresNest(const MeanSquares& pair, const std::function<std::optional<IterKind>(const For&)>& kind);
  /// The iter of a loop.
  const VarRef& iter_of(const For& loop) const { return by_loop.at(loop.variable.get()); }
  std::vector<Expr> at(const ReductionOutput& output, const std::vector<Expr>& more = {}) const;
  /// The block, named so, in its loops.
  Stmt finish(const std::string& name);
  /// The same of the sum of `term` in an element of `buffer`.
  Stmt finish_sum(const std::string& name, const Buffer& buffer, const std::vector<Expr>& indices, const Expr& term,
                  const std::vector<Stmt>& lets = {});

 private:
  std::unordered_map<const Var*, VarRef> by_loop;
};

/// Does the loop drive what is reduced?
bool drives_reduction(const MeanSquares& pair, const For& loop);

/// The Func with what `in_place` has where the sum's nest stands, and `behind` where that of the squares does.
Stmt replace_mean_squares(const MeanSquares& pair, std::vector<Stmt> in_place, const std::vector<Stmt>& behind);

}  // namespace lathe
