#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Compact copies of operands of which no dimension is contiguous, or known to be, where each element is read often.
void stage_scattered(RuleContext& context, const BlockRef& reduction);

/// Copies operands of a product to where its own iters want them, of which an iter picks elements by quotients and
/// remainders, so that no step leads from one to the next: patches of an image that were reshaped into the rows of a
/// matrix.
void stage_joined(RuleContext& context, const BlockRef& reduction);

/// Copies what a reduction reads often in a form that is awkward to read: an operand that it pads, and one along whose
/// vectors it moves by several elements a step.
void stage_operands(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
