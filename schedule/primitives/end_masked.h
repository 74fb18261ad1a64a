#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Ends a loop around a reduction before the iterations in which masks keep every term at the reducer's identity.
///
///   for ko in 0..8:                               for ko in 0..max(min((n[i] + 3) // 4, 8), 0):
///     for ki in 0..4:                               for ki in 0..4:
///       block C: c[i] += select(            ->        block C: c[i] += select(
///         ko*4 + ki < n[i], a[i, ko*4 + ki], 0)         ko*4 + ki < n[i], a[i, ko*4 + ki], 0)
///
/// What masks say is relaxed over the loops within. What they load is loaded before the
/// loop, which is a serial one then.
///
/// Requires:
///   1. block is a reduction without an init; loop, serial or unrolled and from 0 on, is around it
///   2. below loop stand only blocks, which write allocations that nothing outside of these reads, but for block, and
///      assert what is true where masks are false
///   3. below loop nothing is read of those that the iteration has not written before
///   4. where every mask that bounds can be relaxed to is false, block's terms come out as its reducer's identities,
///      whatever its operands are
///   5. a mask that is false in an iteration is false in all later ones, as its bounds are affine in the loop
///   6. masks load elements of inputs, within these, that nothing writes
void end_masked(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
