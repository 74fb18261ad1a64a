#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Splits the axis of a reduction into those that it joins, where a load takes it apart: what lay by no constant step
/// is walked in nested loops, which later rules order and fill vectors from.
///
///   for i: for r in 0..3584:                            for i: for ro in 0..64: for ri in 0..56:
///     s[i] += x[r // 56, i, r % 56]               ->      s[i] += x[ro, i, ri]
///
///   1. reductions, of tuples too, where what is taken apart is read for one result: else tiles want it copied
///   2. where the divisors divide each other and the extent (split_digits)
///   3. where every load then moves by a constant step
void split_joined_sums(RuleContext& context);

/// Is the block a reduction that no rule has placed?
bool is_free_reduction(const RuleContext& context, const BlockRef& ref);
/// Is it one of which no element that is reduced is read for several results, as those of a product's operands are?
bool is_plain_reduction(const RuleContext& context, const BlockRef& ref);
/// Are they by a simple operator, of one result?
bool is_free_sum(const RuleContext& context, const BlockRef& ref);
bool is_plain_sum(const RuleContext& context, const BlockRef& ref);

}  // namespace lathe
