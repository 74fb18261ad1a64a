#pragma once
#include "ir/analysis/interval.h"

namespace lathe {

/// Does the index ask for a quotient or a remainder?
bool takes_apart(const Expr& place);

/// Do a and b always leave the same remainder? Simplification leaves multiples of the divisor out of what only the
/// remainder is taken of: x // 48 and (x - 96*i) % 48 belong together. Never of two that differ where one may wrap.
bool same_remainder(const Bounds& bounds, const Expr& a, const Expr& b, std::int64_t divisor);

}  // namespace lathe
