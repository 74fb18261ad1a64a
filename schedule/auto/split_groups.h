#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes a loop of its own of the groups of results that read operands of their own, as those of a grouped convolution
/// whose channels come last: where no tile stays in such runs of columns, as their length has no divisor among the
/// lanes, a group's columns are rows of lanes by themselves, the last of them idle.
///
///   for f in 0..40: for c: out[f] += x[f // 10 * 8 + c] * w[f, c]
///     ->   for g in 0..4: for k in 0..10: for c: sums[g, k] += x[g * 8 + c] * copy[g, c, k]
///          for f in 0..40: out[f] = sums[f // 10, f % 10]
///
/// What moves along both is copied, a group's own columns last. Says whether there were such groups.
bool split_groups(RuleContext& context, const BlockRef& reduction);

/// Does the reduction have such groups, of which a row of lanes, the last of them idle, takes less time than vectors
/// that divide it?
bool prefers_own_groups(const RuleContext& context, const Block& reduction);

}  // namespace lathe
