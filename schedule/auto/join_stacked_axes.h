#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Joins axes that an element-wise block knows only as one, as a stack that is reshaped does: what it chooses by is
/// then an iter of its own, which later rules unroll, cut at, or weave vectors along.
///
///   for i: for j in 0..3: for k in 0..3:                   for i: for p in 0..9:
///     out[i, j, k] = select(j * 3 + k < 1, a[i], ..)  ->     out[i, p // 3, p % 3] = select(p < 1, a[i], ..)
///
///   1. blocks that write one array, along which the axes lie one behind the other
///   2. where a choice hangs on both, none on one of them, and every element that is read stands still or moves by a
///      step along the joined axis
void join_stacked_axes(RuleContext& context);

}  // namespace lathe
