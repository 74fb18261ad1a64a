#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has vectors walk the rows of a product's results, which lie beside each other in an operand, where the columns are
/// fewer: as of `a.T @ b`, whose tiles would have idle lanes, or read and pack all of `a` an element of a row at a
/// time. What reads the results, or a copy, turns them around.
///
///   out[i, j] += a[k, i] * b[k, j]   ->   turned[j, i] += a[k, i] * b[k, j]
///                                         out[i, j] = turned[j, i]
///
/// Says whether it did.
bool turn_results(RuleContext& context, const BlockRef& reduction);

/// The bits of its factors, as they come to blocks that widen them, where a word of the sums holds several as dot
/// products take them, steps of one iter; nothing elsewhere.
std::optional<int> word_bits(const RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
