#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Vectorizes every block without reduce iters that no rule before has placed. Loops that all accesses walk in one
/// stride become one; the loop along which most accesses are contiguous becomes the innermost, and a few vectors of it
/// are unrolled.
void vectorize_elementwise(RuleContext& context);
/// The same for one block, which later rules leave alone then.
void vectorize_block(RuleContext& context, const BlockRef& block);

/// The cost of an element of the block, in units of body_cost: in vectors along the best of its own loops, or in
/// scalars.
double elementwise_cost(const RuleContext& context, const BlockRef& ref);

}  // namespace lathe
