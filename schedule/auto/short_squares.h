#pragma once
/// Squares where rows are shorter than these.
#include "schedule/auto/rule.h"

namespace lathe {

/// Has element-wise blocks read a copy of an array that lies across their results, where these lie in rows shorter than
/// a square: the array goes on from one of these rows to the next, as results do, so that squares turn the copy around,
/// and another array does not, so that they cannot walk the block (measured on Zen 4, 568x184x2x3 of parts of longer
/// rows beside what has its first dimension last: 0.15 of the time).
void copy_into_short_rows(RuleContext& context);

/// Makes one loop of two along which all accesses go on from one to the other, where the inner one is shorter than a
/// square, and what is loaded is contiguous along it and lies across what is written, or the other way round: squares
/// then walk both (measured on Zen 4, 110x2x174 of bf16 to 174x110x2: 0.1 of the time). Says whether there were such.
bool join_short_turned(RuleContext& context, const BlockRef& ref);

}  // namespace lathe
