#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Starts a reduction with what an element-wise block behind it would combine its result with, and drops that block.
///
///   for i: for k: block C: C[i] += a[i, k]  (init C[i] = 0)         for i: for k:
///   for i: block D: D[i] = C[i] + b[i]                        ->      block C: D[i] += a[i, k]  (init D[i] = b[i])
///
/// Requires:
///   1. block is a reduction from its identity, of one value by add, mul, min, max, logical_and or logical_or, that
///      writes at its space iters, each once
///   2. epilogue runs over its whole domain, each iter by a serial loop of its own, with no other block in those loops
///   3. epilogue is one Store without a mask at its iters, of what block writes at them, combined by the same operation
///      with something that has neither of the two buffers in it, all of one type
///   4. what block writes is an allocation, which nothing else reads or writes
///   5. from the loops around block to epilogue, nothing writes what epilogue reads, or touches what it writes
void fuse_reduction_epilogue(Schedule& schedule, const BlockRef& block, const BlockRef& epilogue);

}  // namespace lathe
