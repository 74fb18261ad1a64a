#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies an operand of a reduction that lies across another one, so that both lie along the same iter: element by
/// element one of them would be gathered, and a reduction has no squares of its own to turn around in registers.
///
///   for i: for j: s[i] += a[i, j] * b[j, i]
///     ->  for i: for j: copy[i, j] = b[j, i]
///         for i: for j: s[i] += a[i, j] * copy[i, j]
///
/// Element-wise blocks whose results lie in rows too short for squares, beside what does not go on from one of these to
/// the next, read such a copy as well.
///
///   1. only beside an operand of which each element is read once: what is read again and again is a contraction's
///   2. element-wise blocks that read the same array so share the copy
void turn_crossed(RuleContext& context);

}  // namespace lathe
