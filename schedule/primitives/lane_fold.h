#pragma once
/// What fold_lanes and fold_columns have in common.
#include <string>

#include "ir/expr.h"
#include "ir/reduction.h"
#include "schedule/schedule.h"

namespace lathe {

/// A short reduction along memory, as conditions 1 to 4 of both primitives describe it.
struct LaneFold {
  BinaryOp op;
  ReductionOutput output;
  const Load* term;
  size_t reduce_iter;
  std::int64_t count;
};

/// Refuses with conditions 1 to 4 unless the block is one.
LaneFold match_lane_fold(const Schedule& schedule, const std::string& application, const BlockRef& block,
                         std::int64_t lanes);

/// The vectors of `lanes` elements of the term at `indices` but for the last, combined by halves into one.
Expr combined_vector(const LaneFold& fold, std::vector<Expr> indices, std::int64_t lanes);

}  // namespace lathe
