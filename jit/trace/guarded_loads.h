#pragma once
#include "ir/analysis/interval.h"

namespace lathe {

/// Drops from a body's Loads the bounds, or choices, that the choice around them makes needless, and masks the Loads
/// instead, so that a border that is written with `where` is the padding that `pad` makes.
///
///   select(2 < i + k, x[max(i + k - 3, 0)], 0)    ->    select(2 < i + k, x[i + k - 3 if 2 < i + k], 0)
///
/// Where the condition, of iters and numbers alone, does not hold, the value that the Load gave is not used.
Expr mask_guarded_loads(const Expr& value, const Bounds& bounds);

}  // namespace lathe
