#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Gives readers that take what is joined of many operands apart the choice among these itself:
///
///   for i: for r in 0..3: s[i, r] = select(r < 1, a[i], select(r < 2, b[i], c[i]))
///   for i: for r in 0..3: out[i] += s[i, r]
///     ->
///   for i: for r in 0..3: out[i] += select(r < 1, a[i], select(r < 2, b[i], c[i]))    for unfold_stacks
///
/// Where every reader reduces along the axis of a stack, or does a little for each element of an output, at places that
/// it does not look up: its loops are then cut, unrolled or woven by the choice. Other readers want what is joined as a
/// whole.
void inline_joins(RuleContext& context);

}  // namespace lathe
