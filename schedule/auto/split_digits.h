#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Splits iters of element-wise blocks by the divisors of which accesses ask for quotients and remainders, as tiling
/// and reshaping tensors do: what was taken apart for each element is walked in nested loops.
///
///   for i in 0..35: y[i] = x[i % 5]    ->    for io in 0..7: for ii in 0..5: y[io*5 + ii] = x[ii]
///
///   1. iters of which an access asks for a remainder, and goes on by no step all the same, or a value; and that no
///      access walks in windows
///   2. where the divisors divide each other and the extent
///   3. where an element is estimated to cost less after it
///
/// A block that chooses by a digit is then cut there (cut_choices).
void split_digits(RuleContext& context);

/// The divisors by which accesses of a block take the iter apart that a loop drives, the greatest first; none where
/// they do not divide each other and the extent, or no remainder is asked for.
std::vector<std::int64_t> digits_of(const Schedule& schedule, const BlockRef& block, const LoopRef& loop);
/// Splits the loop's iter by these, with split_iter.
void split_by_digits(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
