#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Takes a factor that stays the same along a sum out of its terms, behind the sum.
///
///   for i: for j: for k:                              for i: for j: for k:
///     block O: o[i, j] += p[i, k] * c[i] * v[k, j]  ->    block O: o_sum[i, j] += p[i, k] * v[k, j]
///                                                     for i: for j: block O_scaled: o[i, j] = o_sum[i, j] * c[i]
///
/// A divisor is taken out likewise. Returns the new block. Terms are rounded without the factor, and may overflow
/// without it. Where the factor is infinite and terms of the sum have both signs, or are zero in part, what comes out
/// is not finite either, but NaN and infinity may stand for each other.
///
/// Requires:
///   1. block is a sum of floats from 0, runs over its whole domain, each iter by a serial loop of its own with no
///   other
///      block in those loops, and writes at its space iters
///   2. its term is a product or quotient, of which one factor or divisor is an element of the buffer that stays the
///   same
///      along the sum, and which has no other element of it
///   3. the factor, or one over the divisor, is proved to be finite or NaN (schedule/finite_values.h): with an infinite
///   one
///      NaN and infinity could stand for each other
BlockRef hoist_factor(Schedule& schedule, const BlockRef& block, const std::string& buffer);

}  // namespace lathe
