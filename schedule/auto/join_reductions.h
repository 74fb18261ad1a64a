#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Runs reductions that walk over the same elements in one pass, where they do not wait for each other: a minimum
/// beside a maximum loads each vector once.
///
///   for k:                                                  for k:
///     vectorized for l: low[l] = min(low[l], x[k, l])       vectorized for l: low[l] = min(low[l], x[k, l])
///   for k:                                          ->      vectorized for l: high[l] = max(high[l], x[k, l])
///     vectorized for l: high[l] = max(high[l], x[k, l])
///
/// Runs behind vectorize_reductions and pair_rows, which ask for loops that hold a block alone. Partial results of all
/// stay in half of the registers.
void join_reductions(RuleContext& context);

}  // namespace lathe
