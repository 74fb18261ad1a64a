#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a reduction over rows and along them keep a result for each row, where something that it reads is computed once
/// a row, as a loss over a softmax: that can be computed row by row beside it then, and the row be reduced in vectors.
///
///   for i: m[i] = max ..                                  for i: m[i] = max ..
///   for i: for j: y += exp(x[i, j] - m[i])     ->         for i: for j: y_rf[i] += exp(x[i, j] - m[i])
///                                                         for i: y += y_rf[i]
void reduce_rows(RuleContext& context);

}  // namespace lathe
