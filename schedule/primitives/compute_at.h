#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Moves a producer under `loop`, computing there only what the loop's body reads.
///
///   for i in 0..30: block B(i)            for io in 0..4:
///   for io in 0..4:                  ->     for i in 0..8:
///     for ii in 0..8:                         block B(io*8 + i) where io*8 + i < 30
///       block C reads B[io*8 + ii]          for ii in 0..8:
///                                             block C reads B[io*8 + ii]
///
/// The block gets new loops, one an iter: over the region that is read for a space iter, over the whole domain for a
/// reduce iter. A region that is not proved to lie in the domain is cut off by a predicate.
///
/// Where a checked hint (annotate_buffer_access) says what is read, an inspector before the tile picks between it and
/// one that reads the root of the copy chain (inspector.h).
///
/// Requires:
///   1. block runs over its whole domain, but for what a predicate on its own iters leaves out, each iter by a serial
///      loop of its own, with no other block in those loops but those around loop, of which one iteration needs its own
///      instances alone
///   2. what block writes are allocations, at its space iters, each once and the same for all
///   3. block is the only writer of its buffers, something under loop reads them, and any other reader comes behind
///      loop, which is proved to compute what it reads
///   4. loop is not around block, nor below it, nor within a tile (blockize)
///   5. no block between them, or under loop, writes what block reads
///   6. where a checked hint says what is read, block copies from a buffer that still holds the same below loop, no
///      reduction starts below loop and goes on around it, and what loop computes decides no index
///   7. iterations of a parallel or bound loop around loop compute elements of their own
///   8. block asserts nothing, or is proved to run every instance
void compute_at(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
