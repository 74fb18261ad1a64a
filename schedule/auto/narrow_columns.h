#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Reduces columns that are too few for a tile in vectors along their rows, which lie one after the other:
///
///   for j in 0..2: for r in 0..n:        for ro: for f in 0..32:
///     block C(j; r): C[j] += A[r, j]  ->   block C_rf(f % 2, f // 2; ro): C_rf[f] += A[ro*16 + f // 2, f % 2]
///                                        for l in 0..16: for j in 0..2:
///                                          block C(j; l): C[j] += C_rf[l*2 + j]
void narrow_columns(RuleContext& context);

}  // namespace lathe
