#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes the outermost loop of each nest parallel where the nest's estimated time is worth more than one task; loops
/// around one block are fused first while the outermost alone has too few iterations to share out.
void parallel_outer(RuleContext& context);

}  // namespace lathe
