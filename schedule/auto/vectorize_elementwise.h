#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Vectorizes every block without reduce iters that no rule before has placed. Loops that all accesses walk in one
/// stride become one; the loop along which most accesses are contiguous becomes the innermost, and a few vectors of it
/// are unrolled.
void vectorize_elementwise(RuleContext& context);
/// The same for one block, which later rules leave alone then.
void vectorize_block(RuleContext& context, const BlockRef& block);

}  // namespace lathe
