#pragma once
#include <cstdint>

#include "schedule/schedule.h"

namespace lathe {

/// Walks the rows of an array as one, a pitch apart, so that vectors cross from a row to the next: two loops become
/// one. Where the pitch is longer than a row, the block also runs in the gaps, and what it writes there nobody reads.
///
///   for i in 0..3: for j in 0..4:                 for i_j in 0..16:
///     block C(i, j; k):                     ->      block C(i_j; k):
///       y[i*6 + j] += x[i*6 + j + k] * w[k]           y[i_j] += x[i_j + k] * w[k]
///
/// Requires:
///   1. one block lies below the loops; it runs over its whole domain, each iter by a serial loop of its own that holds
///   nothing else
///   2. the loops drive two space iters, or without gaps two reduce iters of neighbouring loops,
///   that begin at 0 and have constant extents
///   3. pitch is no less than inner's extent
///   4. with gaps, block writes an allocation at its space iters, one index being outer * pitch + inner, over whole
///   dimensions, and nothing else writes there
///   5. with gaps, every index of a Load is proved to lie in its buffer, and no Load has a mask
///   6. with gaps, where a buffer that block reads is an allocation, all of it is proved to be written before
LoopRef join_rows(Schedule& schedule, const LoopRef& outer, const LoopRef& inner, std::int64_t pitch);

}  // namespace lathe
