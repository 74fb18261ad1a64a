#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Vectorizes a reduction along contiguous memory: partial results in several vectors, so that their chains overlap,
/// and their lanes folded at the end.
void vectorize_reductions(RuleContext& context);

}  // namespace lathe
