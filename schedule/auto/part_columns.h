#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// The share of a core's own caches from which on arrays are worth reading once. Sums down columns alone, which
/// registers hold while they go down, are from all of these on (measured on Zen 4, 1 MB: the gradient of a layer norm
/// of 256x320 floats 0.89 of the time, of 512x768 0.80, of 8192x1024 0.68; sums beside maxima 1.1, 0.75 and 0.70).
inline constexpr double near_share = 0.5;

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

}  // namespace lathe
