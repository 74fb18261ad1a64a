#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// A loop shorter than this stays on one thread. Workers that stand by begin within a microsecond (measured on Zen 4,
/// two threads: 10 us become 6); those that sleep before a call's first loop take tens to come.
inline constexpr double shared_nanoseconds = 8'000;

/// Makes the outermost loop of each nest parallel where the nest's estimated time is worth more than one task; loops
/// around one block are fused first while the outermost alone has too few iterations to share out.
void parallel_outer(RuleContext& context);

}  // namespace lathe
