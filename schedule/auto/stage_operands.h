#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Compact copies of operands of which no dimension is contiguous, or known to be, where each element is read often.
void stage_scattered(RuleContext& context, const BlockRef& reduction);

/// Copies what a reduction reads often in a form that is awkward to read: an operand that it pads, and one along whose
/// vectors it moves by several elements a step.
void stage_operands(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
