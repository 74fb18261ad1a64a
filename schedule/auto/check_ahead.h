#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Puts vectors of checked indices ahead of those that look them up in a table (looks_up), both of which it vectorizes:
/// what the check leaves does not come from memory. False where the block checks nothing so, or its reader is
/// vectorized alone.
bool check_ahead(RuleContext& context, const BlockRef& ref);

}  // namespace lathe
