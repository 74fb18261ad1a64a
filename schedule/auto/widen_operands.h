#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a sum of products whose factors are narrow floats cast to wider ones read copies that hold the wide ones, where
/// tiles would cast an element again and again: each cast takes slots of the units that multiply. Returns the
/// blocks that cast.
std::vector<BlockRef> widen_operands(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
