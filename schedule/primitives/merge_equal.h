#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Removes a block that computes again what another one has computed: its readers read that one's buffer.
///
///   for i: for k: block A: a[i] += x[i, k]          for i: for k: block A: a[i] += x[i, k]
///   for i: for k: block B: b[i] += x[i, k]    ->    for i: block C: c[i] = a[i] / 8
///   for i: block C: c[i] = b[i] / 8
///
/// Requires:
///   1. each of the two runs over its whole domain, each iter by a serial loop of its own, in loops that stand in no
///      other loop and hold nothing else, and writes one buffer, which no other block writes: an allocation, or
///      original a parameter that no other may alias
///   2. original stands before block, and but for names and the buffers, of one type, shape and space, they are equal
///   3. from original on until block, no block writes what they read
void merge_equal(Schedule& schedule, const BlockRef& block, const BlockRef& original);

}  // namespace lathe
