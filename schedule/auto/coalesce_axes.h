#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes one axis of two that all blocks beside a reduction walk one behind the other, in every array: rows that are
/// short, or no whole vectors, would each end under a mask, and what is kept between blocks needs one dimension alone.
///
///   for i in 0..48: for j in 0..3:                   for t in 0..144:
///     for r: m[i, j] = max(.., x[r, i, j])             for r: m[t] = max(.., x[r, t // 3, t % 3])
///   for r: for i in 0..48: for j in 0..3:       ->   for r: for t in 0..144:
///     out[r, i, j] = x[r, i, j] - m[i, j]              out[r, t // 3, t % 3] = x[r, t // 3, t % 3] - m[t]
///
///   1. an axis is what blocks index a dimension of a buffer between them by; both have constant extents and are of
///      space iters alone, at neighbouring dimensions of every such buffer, or stand still
///   2. the inner one is contiguous, or what is loaded goes by a few elements, and nothing along it is masked
///   3. reductions that have the two are no products, whose axes contractions plan, but for windows whose weights are
///   the
///      same for all results, of an inner axis that fills no vector
void coalesce_axes(RuleContext& context);

}  // namespace lathe
