#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Joins axes of a reduction's results that go on from one to the next, in the results and in what is reduced, where
/// rows of the inner one are no whole vectors: each row would end under a mask.
///
///   for i in 0..34: for j in 0..35:                for t in 0..1190:
///     for r: m[i, j] = max(.., x[r, i, j])   ->      for r: m_global[t] = max(.., x[r, t // 35, t % 35])
///                                                  for i: for j: m[i, j] = m_global[i*35 + j]
///
///   1. simple reductions that are no product (is_plain_sum), of enough steps that the copy is a small part
///   2. of constant extents, along each step of an axis as the inner ones are long
void join_columns(RuleContext& context);

}  // namespace lathe
