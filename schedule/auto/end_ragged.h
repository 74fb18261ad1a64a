#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Ends the loops of sums, products and extremes whose axes are as long as data or other indices say, rather than as
/// long as they may be at most: rows of a ragged array, windows of computed lengths, triangles.
///
///   for i: for k in 0..64:                        for i: for k in 0..min(o[i + 1] - o[i], 64):
///     s[i] += select(k < o[i + 1] - o[i],   ->      s[i] += select(k < o[i + 1] - o[i],
///                    x[o[i] + k], 0)                               x[o[i] + k], 0)
void end_ragged(RuleContext& context);

}  // namespace lathe
