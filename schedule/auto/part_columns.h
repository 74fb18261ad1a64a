#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Cuts sums down the columns of an array that leaves the core's own caches, and whose rows something else walks too,
/// into parts for blocks of rows, to which row after row is added:
///
///   for j: for i: y[j] += x[i, j]   ->   for p: { for j: y_rf[p, j] = 0;
///                                                 for i in 0..64: for j: y_rf[p, j] += x[p * 64 + i, j] }
///                                        for j: for p: y[j] += y_rf[p, j]
///
/// How many rows a part has depends on their number and the device alone. Sums over two axes of an array from memory
/// get a part for each step of the outer one, whatever else there is.
void part_columns(RuleContext& context);

/// Gives such parts, and what else walks the rows, one loop over these, so that a row is read from memory once:
///
///   for i: f(x[i, :])                          ->   for p: { y_rf[p, :] = 0;
///   for p: {y_rf[p, :] = 0; for i: y_rf[p, :] += ..}         for i: { f(x[p * 64 + i, :]); y_rf[p, :] += .. } }
void join_columns(RuleContext& context);

}  // namespace lathe
