#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Leaves out the iterations of a loop along a reduction in which masks keep every term at the reducer's identity.
///
///   for ko:                                       for ko:
///     for i: for ki: block P: p[i, ki] =            if ko*8 <= io*4 + 3 or z[ko] != 0:
///       select(ko*8 + ki <= io*4 + i,        ->       for i: for ki: block P
///              exp(s[i, ki]), 0)                      for i: for ki: block C: c[i] += p[i, ki] * v[ko*8 + ki]
///     for i: for ki: block C:
///       c[i] += p[i, ki] * v[ko*8 + ki]
///
/// What masks say is relaxed over the loops within, and the body runs with constants for what they decide. Zero times
/// an element is zero only where that is finite: for such operands, a nest before the one that holds loop sums zero
/// times them (z above), and iterations with a sum that is not 0 are not left out. So NaN and infinities come out as
/// before.
///
/// Requires:
///   1. block is a reduction without an init, by loops of which loop, a serial one, drives a reduce iter
///   2. below loop stand only blocks, which write allocations that nothing outside of loop reads, but for block
///   3. below loop nothing is read of those that the iteration has not written before
///   4. where every mask that bounds can be relaxed to is false, block's terms come out as its reducer's identities
///   5. an operand that is to be finite is written whole before the nest that holds loop, where nothing writes it, or
///   is
///      an input
void skip_masked(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
