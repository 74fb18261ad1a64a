#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes one expression of a reduction of few steps that vectors can walk neither along its steps nor along its
/// results, as it finds its terms by quotients of these: element-wise, its windows are picked in registers.
///
///   for i: for r in 0..2:                              for i:
///     out[i] += select(a[(i + 1)//2 - r] == i, ..)  ->   out[i] = select(a[(i + 1)//2] == i, ..) +
///                                                                 select(a[(i + 1)//2 - 1] == i, ..)
///
/// Of a reduction under a condition, which remains one, the steps are unrolled.
void unfold_steps(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
