#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Inlines a producer without a reduction into all its consumers where that costs no more than storing and loading it:
/// a cast or an addition nearly always, an exponential only into one consumer that reads each element once.
void inline_elementwise(RuleContext& context);

}  // namespace lathe
