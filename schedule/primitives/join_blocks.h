#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Makes one block of two that run one right after the other, so that what both load is loaded once, and what the
/// second reads of the first is not loaded at all. It keeps the name of `first`.
///
///   for i:                                         for i:
///     block B(vi = i): b[vi] = x[vi] + 1             block B(vi = i):
///     block C(wi = i): c[wi] = b[wi] * x[wi]   ->      let v = x[vi] + 1
///                                                      let w = v * x[vi]
///                                                      b[vi] = v
///                                                      c[vi] = w
///
/// Requires:
///   1. second comes right behind first in one sequence
///   2. both have space iters alone, one for one with the same domains and bindings, and the same predicate, and
///   neither has allocations or annotations
///   3. the body of each is Lets around unmasked Stores to distinct buffers, as join_blocks leaves them
///   4. no buffer that second writes is touched by first, and what second reads of those that first writes is the
///   element that first stores
void join_blocks(Schedule& schedule, const BlockRef& first, const BlockRef& second);

}  // namespace lathe
