#pragma once
#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Joins two space iters of a contraction that walk memory together, as the rows and columns of an image do, where rows
/// alone would leave lanes of the last vector idle: vectors then cross from a row to the next. Where rows lie further
/// apart than they are long, sums are taken in the gaps too, into a buffer of their own, out of which the results are
/// read; that is estimated beside the rows as they are, and beside vectors across memory.
void join_short_rows(RuleContext& context, const BlockRef& reduction);

/// Joins space iters of a contraction into one that walk every array in one piece, or not at all, beside an operand
/// that moves with none of them: a batch of rows beside one matrix is more rows, which share its panels.
void join_row_axes(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
