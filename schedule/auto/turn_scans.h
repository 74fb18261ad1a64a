#pragma once
#include <functional>

#include "schedule/auto/rule.h"

namespace lathe {

/// Has vectors lie across rows of a scan that lies along them: a group of rows at a time is turned around, scanned side
/// by side, and turned back. Each step waits for the one before it, so that a row alone has nothing to fill lanes with.
///
///   for i: for j: y[i, j] = a * y[i, j - 1] + x[i, j]
///     ->  for io: for ii: for j: x_copy[j, ii] = x[io * 16 + ii, j]
///                 for j: for ii: y_copy[j, ii] = a * y_copy[j - 1, ii] + x_copy[j, ii]
///                 for ii: for j: y[io * 16 + ii, j] = y_copy[j, ii]
///
///   1. scans whose combination no lanes of a row share (match_scan), of constant extents
///   2. of as many rows as fill half a vector, where a group of them stays in the last cache
///   3. where each operand lies along the rows, across them, or stands still
///
/// False where the block is none of these.
bool turn_scan(RuleContext& context, const BlockRef& ref);

/// The same of a reduction whose operands may not change places, which no lanes of a row share either: copies that are
/// turned around are made below what `vectorize` lays around the steps of vectors down columns; nothing is done where
/// it says that there are none.
bool turn_fold(RuleContext& context, const BlockRef& ref,
               const std::function<bool(const BlockRef& reduction)>& vectorize);

/// Removes what a scan combines beside the results that are asked for, and nothing but itself is made of. True where
/// there is such.
bool drop_unread_results(RuleContext& context, const BlockRef& ref);

}  // namespace lathe
