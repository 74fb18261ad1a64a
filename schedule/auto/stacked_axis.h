#pragma once
#include <functional>
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Does the block choose by the iter, with another arm for each of its values, as where tensors are stacked along it?
///
///   select(vr < 1, a, select(vr < 2, b, c))     along vr in [0, 3), but not in [0, 4)
bool is_stacked_along(const Block& block, const Iter& iter);

/// The loops along such iters of two values and more, of those that are wanted, by the iter and its number of values.
std::vector<LoopRef> stacking_loops(const Schedule& schedule, const BlockRef& ref,
                                    const std::function<bool(const Iter& iter, std::int64_t count)>& wanted);

}  // namespace lathe
