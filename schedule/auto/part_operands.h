#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies an operand of which a tile reads some elements of each line, the others of which serve other results, as the
/// taps of a transposed convolution do: what the steps of a tile read is brought together.
///
///   for residue: for row: for k:                   for residue: for row: for k: copy[residue, row, k] = ..
///     C[residue, row, ..] +=                  ->   for residue: for row: for k:
///         .. * x[k, row, 3 - residue]                C[residue, row, ..] += .. * copy[residue, row, k]
///
/// Where the device has no time left for loads (lacks_issue_slots), and the operand leaves the first cache.
void part_operands(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
