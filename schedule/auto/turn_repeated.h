#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies what element-wise blocks read again and again across what they write, in the order of what they write: turned
/// around once, it is then read as it lies. So too what lies in short runs along what is written, or is
/// one element for each of these, and goes on elsewhere than the result does.
///
///   for i: for j: for k: out[i, j, k] = x[k, i] * y[i, j]
///     ->  for i: for k: copy[i, k] = x[k, i]
///         for i: for j: for k: out[i, j, k] = copy[i, k] * y[i, j]
void turn_repeated(RuleContext& context);

}  // namespace lathe
