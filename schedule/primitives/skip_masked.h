#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Leaves out the iterations of loops around a reduction in which masks keep every term at the reducer's identity.
///
///   for ko:                                       for ko:
///     for i: for ki: block P: p[i, ki] =            if ko*8 <= io*4 + 3 or z[ko]:
///       select(ko*8 + ki <= io*4 + i,        ->       for i: for ki: block P
///              exp(s[i, ki]), 0)                      for i: for ki: block C: c[i] += p[i, ki] * v[ko*8 + ki]
///     for i: for ki: block C:
///       c[i] += p[i, ki] * v[ko*8 + ki]
///
/// What masks say is relaxed over the loops within each, and the body runs with constants for what they decide. The
/// zeros around what a block copies, of a buffer that it pads, say as much as a mask. Zero times an element is zero
/// only where that is finite: for such operands, nests before the loops sum zero times them and mark sums that are not
/// 0 (z above), and iterations with a mark are not left out. So NaN and infinities come out as before. Within several
/// loops along the reduction the sum is that of all of their iterations. Returns the blocks that make sums.
///
/// Requires:
///   1. block is a reduction without an init, and loops, serial or unrolled ones, are around it
///   2. below loops stand only blocks, which write allocations that nothing outside of these reads, but for block
///   3. below loops nothing is read of those that the iteration has not written before
///   4. where every mask that bounds can be relaxed to is false, block's terms come out as its reducer's identities
///   5. an operand that is to be finite is an input, or written whole before the loops that walk it
std::vector<BlockRef> skip_masked(Schedule& schedule, const BlockRef& block, const std::vector<LoopRef>& loops);

}  // namespace lathe
