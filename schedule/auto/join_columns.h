#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Gives the parts of part_columns, and what else walks the rows, one loop over these, so that a row is read from
/// memory once:
///
///   for i: f(x[i, :])                          ->   for p: { y_rf[p, :] = 0;
///   for p: {y_rf[p, :] = 0; for i: y_rf[p, :] += ..}         for i: { f(x[p * 64 + i, :]); y_rf[p, :] += .. } }
void join_columns(RuleContext& context);

}  // namespace lathe
