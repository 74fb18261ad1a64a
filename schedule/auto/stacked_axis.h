#pragma once
#include "ir/stmt.h"

namespace lathe {

/// Does the block choose by the iter, with another arm for each of its values, as where tensors are stacked along it?
///
///   select(vr < 1, a, select(vr < 2, b, c))     along vr in [0, 3), but not in [0, 4)
bool is_stacked_along(const Block& block, const Iter& iter);

}  // namespace lathe
