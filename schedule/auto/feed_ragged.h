#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Computes the places that a reduction of ragged rows reads at, each checked once, in the step that reads there, so
/// that none are computed behind the rows' ends, nor kept for rows as long as they may be at most.
///
///   for i: for k in 0..64: p[i, k] = j[o[i] + k]             for i: for k:
///   for i: for k in 0..64:                             ->      p[i, k] = j[o[i] + k]
///     s[i] += select(k < o[i + 1] - o[i], x[p[i, k]], 0)       s[i] += select(k < o[i + 1] - o[i], x[p[i, k]], 0)
void feed_ragged(RuleContext& context);

}  // namespace lathe
