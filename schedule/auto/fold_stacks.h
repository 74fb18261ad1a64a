#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes one access of slices that lie a step apart and are stacked (fold_choices), so that what is left walks memory:
/// a choice among them costs each element a masked load of every slice, and each slice a loop to compile.
///
///   for i in 0..97: for j:                                       for i in 0..97: for j:
///     out[i, j] = select(i < 1, x[j],                      ->      out[i, j] = x[i * 160 + j]
///                        select(i < 2, x[j + 160], ..))
///
///   1. element-wise blocks that choose by an iter, with an arm for each of its values
///   2. where the iter is not the last along memory, or has more values than weave_vectors takes
void fold_stacks(RuleContext& context);

}  // namespace lathe
