#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Makes one expression of arms that a block chooses by the value of an iter, where they read places that go on by the
/// same step from one to the next: slices of a tensor that are stacked, as the frames of a signal are.
///
///   for i in 0..3: for j:                                        for i in 0..3: for j:
///     out[i, j] = select(i < 1, x[j],                      ->      out[i, j] = x[i * 8 + j]
///                        select(i < 2, x[j + 8], x[j + 16]))
///
/// Requires:
///   1. block has only space and reduce iters, and runs over its whole domain, each iter by a serial loop of its own,
///      with no other block in the one that is named
///   2. loop drives an iter of block, whose domain is [0, n) with n constant
///   3. block chooses by that iter, with an arm for each of its values, all alike but for places that go on so
void fold_choices(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
