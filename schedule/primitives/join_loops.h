#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Runs the iterations of two loops over the same range by turns, so that what both touch is touched together: loop
/// fusion. The joined loop, with the variable of `first`, stands where `second` was if `first` can run that late, else
/// where `first` was.
///
///   for i in 0..30: block B(i)                    for i in 0..30:
///   for j in 0..30: block C(j) reads B[j]   ->      block B(i)
///                                                   block C(i) reads B[i]
///
/// Requires:
///   1. both are serial loops with the same range and the same annotations, and second comes behind first in one
///   sequence
///   2. nothing between them depends on first, or second depends on nothing between them
///   3. in no iteration does first touch what second has touched in an earlier one, where one of them writes it
LoopRef join_loops(Schedule& schedule, const LoopRef& first, const LoopRef& second);

}  // namespace lathe
