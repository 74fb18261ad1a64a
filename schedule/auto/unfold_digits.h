#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes one expression of a reduction over the digits of words, as of weights of four bits, two in a byte
/// (unfold_reduction): vectors walk words that lie beside each other, where they would walk the few digits of one.
///
///   for k: for p in 0..2:                        for k:
///     out += x[2 * k + p] *               ->       out += x[2 * k] * (w[k] & 15) +
///            (w[k] >> 4 * p & 15)                         x[2 * k + 1] * (w[k] >> 4 & 15)
///
/// Runs once the axes of sums are digits of what they join (split_joined_sums).
void unfold_digits(RuleContext& context);

/// Does the reduction shift what it loads by numbers that hang on its steps?
bool shifts_words(const Block& block);

}  // namespace lathe
