#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Vectorizes a reduction of tuples, such as a value and its index: several neighbours, or several short rows, a lane
/// each, or along memory, each lane with a tuple of its own until all are folded by halves.
void vectorize_tuples(RuleContext& context, const BlockRef& ref);

/// Does the block reduce tuples of neighbours, or along rows so short, that several are taken at once, a lane each?
bool takes_rows_side_by_side(const Block& block, const Device& device);

}  // namespace lathe
