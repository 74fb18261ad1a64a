#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Computes an element-wise consumer where its operand is produced, and drops the operand's buffer: the other end of
/// compute_inline.
///
///   for i: for k: block B: B[i, k] = x[k, i]          for i: for k: block B:
///   for i: for j: block C: C[i, j] = B[i, j] * 2  ->    let B = x[k, i]
///                                                       C[i, k] = B * 2
///
/// The producer keeps its name, loops and iters, and gets a predicate where it computes elements that block does not
/// read.
///
/// Requires:
///   1. block has only space iters, runs over its whole domain, and its body is Lets around one Store without a mask
///   2. block reads an allocation that no other block reads, by Loads without a mask at its iters, each once, or 0
///   3. one block writes that allocation; it has only space iters, and its body is Lets around one Store without a mask
///   4. no block between them writes what block reads, or touches what block writes
void reverse_compute_inline(Schedule& schedule, const BlockRef& block);

}  // namespace lathe
