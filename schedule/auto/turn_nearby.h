#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Moves a copy that squares turn around, and that a core's own caches do not hold, under the loop over rows of what
/// reads it, a few rows at a time: these are read while they are near, rather than written to memory first.
///
///   for i: for j: copy[i, j] = b[j, i]                 for io:
///   for i: for j: s[i] += a[i, j] * copy[i, j]    ->     for ii: for j: copy[ii, j] = b[j, io * 64 + ii]
///                                                        for ii: for j: s[io * 64 + ii] += a[..] * copy[ii, j]
void turn_nearby(RuleContext& context);

}  // namespace lathe
