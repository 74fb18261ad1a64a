#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Makes the steps of a reduction one expression, each without what its place decides. So what joins a few tensors
/// along the axis that is reduced takes one of them a step, in the place of a choice between all.
///
///   for i: for r in 0..3:                                  for i:
///     out[i] += select(r < 1, a[i],                ->        out[i] = a[i] + b[i] + c[i]
///                      select(r < 2, b[i], c[i]))
///
/// Where the block has other reduce iters it remains a reduction over these, of terms that are such expressions.
///
/// Requires:
///   1. block has only space and reduce iters, and runs over its whole domain, each iter by a serial loop of its own,
///   with no other block in loop
///   2. loop drives an iter of block, whose domain is [0, n) with n constant
///   3. that is a reduce iter of 1 to 64 steps
///   4. block begins with its reducer's identity, and combines one value by one operator, whose term has no Let around
///   it
void unfold_reduction(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

/// The most steps that unfold_reduction makes one expression.
constexpr std::int64_t most_unfolded = 64;

}  // namespace lathe
