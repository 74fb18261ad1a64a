#pragma once
#include <cstdint>
#include <vector>

#include "ir/func.h"

namespace lathe {

/// May one loop take the place of those over `iters`, outermost first, of which all but the outermost have the given
/// extents? It may not where a value asks for them, as padding does, or where a place that joins rows is no longer seen
/// to go on by a step: each lane would then divide.
///
///   for i: for j in 0..7: y[i, j] = x[i, j] * 2          may: f goes through both arrays
///   for i: for j in 0..7: y[i, j] = select(j < 3, 1, 0)   may not: f % 7 < 3
bool may_be_one_walk(const Block& block, const std::vector<size_t>& iters, const std::vector<std::int64_t>& extents);

}  // namespace lathe
