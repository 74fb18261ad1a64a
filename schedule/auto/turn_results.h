#pragma once
#include <optional>

#include "schedule/auto/rule.h"

namespace lathe {

/// Has vectors walk the rows of a product's results, which lie beside each other in an operand, where the columns are
/// fewer: as of `a.T @ b`, whose tiles would have idle lanes, or read and pack all of `a` an element of a row at a
/// time. What reads the results, or a copy, turns them around.
///
///   out[i, j] += a[k, i] * b[k, j]   ->   turned[j, i] += a[k, i] * b[k, j]
///                                         out[i, j] = turned[j, i]
void turn_results(RuleContext& context, const BlockRef& reduction);

/// Is it estimated to pay? Of dot products, whose factors have `word_bits` each, rows are laid out in words otherwise.
bool pays_to_turn_results(const RuleContext& context, const BlockRef& reduction,
                          const std::optional<int>& word_bits = std::nullopt);

}  // namespace lathe
