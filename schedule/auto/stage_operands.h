#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies what a reduction reads often in a form that is awkward to read: an operand that it pads, one that lies
/// scattered, and one along whose vectors it moves by several elements a step.
void stage_operands(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
