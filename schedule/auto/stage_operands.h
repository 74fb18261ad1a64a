#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Reads of an element for which a padded copy is made that sets rows apart by steps: each vector of it is two loads
/// and a shuffle, once (measured on Zen 3: depthwise 3x3 by 2, which reads an element 2.25 times, in 0.26 to 0.65 of
/// the time of dot products of its rows; on Zen 4 of bf16 over 112 columns, which is widened besides, in 0.19).
inline constexpr double apart_reuse = 1.5;

/// Compact copies of operands of which no dimension is contiguous, or known to be, where each element is read often.
void stage_scattered(RuleContext& context, const BlockRef& reduction);

/// Copies operands of a product to where its own iters want them, of which an iter picks elements by quotients and
/// remainders, so that no step leads from one to the next: patches of an image that were reshaped into the rows of a
/// matrix.
void stage_joined(RuleContext& context, const BlockRef& reduction);

/// Does the operand lie along results with elements of their own, as pixels of channels do, so that `condition` picks
/// whole vectors of it, or of its padding, in windows of few steps? Zeros are then loaded in the place of padding, and
/// no copy is made of both.
bool pads_whole_vectors(const RuleContext& context, const Block& block, const Buffer& operand, const Expr& condition);

/// Copies what a reduction pads with elements that repeat others, the nearest, those of the other end or those before
/// them: no vectors walk it as it is, nor do two axes that lie in one piece.
void stage_repeats(RuleContext& context, const BlockRef& reduction);

/// Copies what a reduction reads often in a form that is awkward to read: an operand that it pads, and one along whose
/// vectors it moves by several elements a step.
void stage_operands(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
