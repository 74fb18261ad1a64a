#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Keeps a window of rows that moves with a loop in a ring, and computes only the rows that come in.
///
///   for y in 0..8:                                for k in 0..2: block B_first: B[k % 3] = x[k]
///     for k in 0..3: block B: B[y + k] = x[y + k]    for y in 0..8:
///     for r in 0..3:                           ->      for k in 0..1: block B: B[(y + k + 2) % 3] = x[y + k + 2]
///       block C(y, r): .. B[y + r] ..                  for r in 0..3:
///                                                        block C(y, r): .. B[(y + r) % 3] ..
///
/// The rows are a dimension of the buffer that block writes; its extent becomes the window's. Their iter becomes
/// ordered, for a row takes the place of an older one. Returns the block that fills the window before the loop.
///
/// Requires:
///   1. loop is serial and around block, whose own loops stand directly in loop's body, with nothing else in them
///   2. block has only space iters, and writes one buffer, an allocation, which it does not read
///   3. only blocks directly below loop touch the buffer, by Loads and Stores at scalar indices, without a hint, and
///      block alone writes it
///   4. what an iteration of loop reads of the buffer is proved to be written before in that iteration
///   5. no block below loop writes what block reads
///   6. block stores without a mask, at its iters; one of them is bound to step*loop + k + what neither of them is in,
///      where k is one of block's own loops, serial, from 0 to a constant window, and 0 < step < window; no other iter
///      and no bound of a loop uses loop or k
///   7. the predicate of block says the same of a row in every iteration
BlockRef rolling_buffer(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
