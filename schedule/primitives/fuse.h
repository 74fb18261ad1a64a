#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Makes one loop of two that nest with nothing between them.
///
///   for i in 0..4:                  for ij in 0..24:
///     for j in 0..6:          ->      block B(ij // 6, ij % 6)
///       block B(i, j)
///
/// Requires:
///   1. inner is all that outer's body holds
///   2. inner's bounds do not use outer
///   3. both loops are serial
///   4. of a block with an init they do not drive a space and a reduce iter, unless the latter is proved to run
LoopRef fuse(Schedule& schedule, const LoopRef& outer, const LoopRef& inner);

}  // namespace lathe
