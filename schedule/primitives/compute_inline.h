#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Computes a producer where it is read, and drops its block and buffer.
///
///   for i: block B: B[i] = x[i] + 1             for i: block C:
///   for i: block C: C[i] = B[i] * B[i]    ->      let B = x[i] + 1
///                                                 C[i] = B * B
///
/// An element that a consumer uses several times is computed once, bound by a Let, so that chains grow linearly. The
/// mask of a read is pushed into the producer's own loads, and gives zero where it is false, as the masked read did.
///
/// Requires:
///   1. block has no reducer and no iter but space iters, and its body is Lets around one Store without a mask, at
///      indices that are its iters, each once, or 0; no Assert and no extern call
///   2. block is the only writer of its buffer, and the buffer is an allocation
///   3. everything that reads the buffer is a Load in a block's body, not in an init, a reducer or an AddressOf
///   4. the indices and masks of those Loads use only the consumer's iters and the Lets at the head of its body, and no
///      element of the buffer itself
///   5. no block behind it writes what it reads
///   6. a block reads the buffer
void compute_inline(Schedule& schedule, const BlockRef& block);

}  // namespace lathe
