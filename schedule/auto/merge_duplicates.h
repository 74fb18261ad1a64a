#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Merges blocks that compute the same, as the sums of a mean and of a variance of one tensor do.
void merge_duplicates(RuleContext& context);

}  // namespace lathe
