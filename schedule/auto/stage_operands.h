#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies what a reduction reads often in a form that is awkward to read: an operand that it pads, and one along whose
/// vectors it moves by several elements a step.
void stage_operands(RuleContext& context, const BlockRef& reduction);

/// Turns the operand that vectors walk along the output around in a copy, so that they can walk along the reduction,
/// where that is estimated to be faster: few columns leave most lanes idle. The reduction is then one of dot products.
void turn_operand(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
