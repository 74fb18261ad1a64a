#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Fills a buffer one iteration ahead, in two halves that take turns, so that the loads of the next tile need not wait
/// for the work on this one.
///
///   for io in 0..4:                              for i in 0..8: block B_first: B[0, i] = x[i]
///     for i in 0..8:                             for io in 0..4:
///       block B: B[io*8 + i] = x[io*8 + i]   ->    for i in 0..8:
///     for ii in 0..8:                                block B: B[(io + 1) % 2, i] = x[(io + 1)*8 + i] where io + 1 < 4
///       block C reads B[io*8 + ii]                 for ii in 0..8:
///                                                    block C reads B[io % 2, ii]
///
/// A dimension along which the tile moves with the loop is counted from the tile's beginning, where the first tile is
/// proved to lie in the buffer. Returns the block that fills the first half.
///
/// Requires:
///   1. loop is serial and around block, whose own loops stand directly in loop's body, with nothing else in them
///   2. block has only space iters, and writes one buffer, an allocation, which it does not read
///   3. only blocks directly below loop touch the buffer, by Loads and Stores at scalar indices, without a hint, and
///      block alone writes it
///   4. what an iteration of loop reads of the buffer is proved to be written before in that iteration
///   5. no block below loop writes what block reads
///   6. no reader has an init, for each gets an ordered iter that says which iteration it belongs to
///   7. loop is as long whatever loops around it and data say
BlockRef double_buffer(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
