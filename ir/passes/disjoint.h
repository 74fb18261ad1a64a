#pragma once
#include <span>
#include <vector>

#include "ir/passes/buffer_uses.h"

namespace lathe {

/// The loops around an access from number `depth` on.
std::span<const LoopRange> below(const BufferUse& access, size_t depth);

/// Do different iterations of the loop at `depth`, which all the accesses share, touch different elements, told apart
/// by one dimension or by several? False where it cannot be proved.
bool disjoint(const std::vector<BufferUse>& accesses, size_t depth, const Bounds& bounds);

}  // namespace lathe
