#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes one expression of a reduction over an axis along which tensors are stacked (unfold_reduction): each step takes
/// one of them, where the loop would compute them all to choose one.
///
///   for i: for r in 0..3:                                  for i:
///     out[i] += select(r < 1, a[i],                ->        out[i] = a[i] + b[i] + c[i]
///                      select(r < 2, b[i], c[i]))
///
/// Where every step of the axis takes another arm of choices that hang on it alone.
void unfold_stacks(RuleContext& context);

/// May a reduction be made one expression: is it by one operation, over all of its steps, and has no rule placed it?
bool may_unfold(const RuleContext& context, const BlockRef& ref);

}  // namespace lathe
