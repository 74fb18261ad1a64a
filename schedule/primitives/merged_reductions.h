#pragma once
/// What fuse_reductions (fuse_reductions.h) merges, matched and checked.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/reduction.h"
#include "schedule/homomorphism.h"
#include "schedule/rewrite.h"
#include "schedule/schedule.h"

namespace lathe {

/// A block of the nest to be, by its path and the outermost loop that holds it alone.
struct MergedBlock {
  Path path;
  size_t own = 0;
  const Block& block() const { return *path.back().as<Block>(); }
  const Stmt& statement() const { return path[own]; }
};

/// A sum, and what was found of it.
struct MergedSum {
  MergedBlock member;
  ReductionParts parts;
  size_t axis = 0;               ///< its reduce iter
  std::optional<size_t> column;  ///< its space iter that first has not
  Substitution to_first;         ///< its iters, in first's; the column is none
  Homomorphism factor;
};

/// An element-wise block between.
struct MergedBetween {
  MergedBlock member;
  size_t axis = 0;
  Substitution to_first;
  const Store* store = nullptr;
  Expr value;  ///< without lets
};

/// A maximum or minimum, the sums that need its result, and what stands around them.
struct MergedReductions {
  std::string application;
  MergedBlock first;
  BinaryOp op = BinaryOp::max;
  Reducer reducer;
  ReductionParts parts;
  size_t axis = 0;
  std::int64_t extent = 0;  ///< of the axis
  Expr term, identity;
  std::vector<MergedSum> sums;
  std::vector<MergedBetween> between;
  std::vector<Stmt> before, behind;  ///< statements beside the blocks, where they come to stand
  const Buffer& result() const { return parts.outputs[0].buffer; }
};

/// Matches what is to be merged `step` elements of the axis at a time; refuses what fuse_reductions refuses.
MergedReductions match_merged_reductions(const Schedule& schedule, const BlockRef& first,
                                         const std::vector<BlockRef>& rest, std::int64_t step);

/// `e` with what `value` gives for each Load of the buffer.
Expr replace_loads(const Expr& e, const Buffer& buffer, std::function<Expr(const Load&)> value);

}  // namespace lathe
