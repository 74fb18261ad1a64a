#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Moves a consumer under `loop`, behind what is produced there, computing there what one iteration's elements allow.
///
///   for io in 0..4: for ii in 0..8:            for io in 0..4:
///     block B(io*8 + ii) where .. < 30           for ii in 0..8: block B(io*8 + ii) where io*8 + ii < 30
///   for j in 0..30: block C(j) reads B[j]  ->    for j in 0..8: block C(io*8 + j) where io*8 + j < 30
///
/// The block gets new loops, one an iter: over what the iteration writes of what it reads, where it reads that at a
/// space iter plus a constant, over the whole domain for other iters.
///
/// Requires:
///   1. block runs over its whole domain, each iter by a serial loop of its own, with no other block in those loops
///   2. block comes behind loop, which is not around it
///   3. block reads something that is written below loop, and what it reads of it in an iteration is proved to be
///      written for sure in that iteration
///   4. no later iteration, of loop or of a loop around it, may write that again
///   5. no block under loop or between them touches what block writes, nor writes, between them, what block reads
///   6. the iterations are proved to run every instance of block
void reverse_compute_at(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
