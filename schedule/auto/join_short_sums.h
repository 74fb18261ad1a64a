#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Joins axes of a reduction that walk memory one behind the other where the innermost would fill few vectors, as the
/// 3x3 taps of a filter do: rows are then as long as all of them together.
///
///   for r in 0..128: for s in 0..9: out[] += x[r, s]    ->    for t in 0..1152: out[] += x[t // 9, t % 9]
///
/// For simple reductions that are no product, of which every load walks the axes as one.
void join_short_sums(RuleContext& context);
/// The same of one block.
void join_short_sum(RuleContext& context, const BlockRef& ref);

}  // namespace lathe
