#pragma once
#include <cstdint>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// May one loop take the place of those over `iters`, outermost first, of which all but the outermost have the given
/// extents? It may not where a value asks for them, as padding does, or where a place that joins rows is no longer seen
/// to go on by a step: each lane would then divide.
///
///   for i: for j in 0..7: y[i, j] = x[i, j] * 2          may: f goes through both arrays
///   for i: for j in 0..7: y[i, j] = select(j < 3, 1, 0)   may not: f % 7 < 3
bool may_be_one_walk(const Block& block, const std::vector<size_t>& iters, const std::vector<std::int64_t>& extents);

/// Loops outside of the innermost that one loop with it can take the place of, and its extent.
struct OneWalk {
  size_t outer = 0;
  std::int64_t extent = 0;  ///< 0 where the innermost loop's is not known
};

/// Along which all accesses of the block go on from one row to the next. Each of `loops` moves the iter of `iters` at
/// its place.
OneWalk find_one_walk(const RuleContext& context, const Block& block, const std::vector<Access>& accesses,
                      const std::vector<LoopRef>& loops, const std::vector<size_t>& iters);

}  // namespace lathe
