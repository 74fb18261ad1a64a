#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Takes the steps of a window along one axis out of a reduction, into one over what the other steps come to, which
/// neighbouring windows share: filters that are separable, as greatest elements and sums of squares of pixels are.
///
///   for i: for j in 0..8: for r: for s in 0..3:      for i: for v in 0..10: for r: window[i, v] += x[i + r, v]
///     out[i, j] += x[i + r, j + s]               ->  for i: for j in 0..8: for s in 0..3:
///                                                      out[i, j] += window[i, j + s]
///
/// `across` drives the space iter that moves the window, `along` the reduce iter of its steps. Returns the block of the
/// shared results, which stands before the other. The sum is taken in another order, one that depends on extents alone.
/// So many elements of padding as `lead` says begin the row that is shared, so that vectors of it begin where lines do.
///
/// Requires:
///   1. block has only space and reduce iters, and runs over its whole domain, each iter by a serial loop of its own,
///   with no other block in these loops, and no region hint
///   2. across and along drive an iter of block each, whose domains are [0, n) with n constant
///   3. the first is a space iter, the second a reduce iter and not the only one
///   4. block begins with its reducer's identity, and combines one value by one operator, whose term has no Let around
///   it
///   5. one index of the result is the space iter, and no other depends on it
///   6. the term depends on both iters by one sum of them alone, a * across + b * along with a or b of 1 or -1 once
///   their common divisor is taken out, each value of which some window takes
///   7. lead is at least 0, and nothing is read for elements of it
BlockRef separate_window(Schedule& schedule, const BlockRef& block, const LoopRef& across, const LoopRef& along,
                         std::int64_t lead = 0);

}  // namespace lathe
