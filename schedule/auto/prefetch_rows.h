#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a pass over memory ask for what it reads next where hardware does not.
///
/// A costly pass over a row, which an earlier pass has brought near, asks for the next row: arithmetic and memory then
/// take their time side by side instead of one after the other.
///
///   for i:                                     for i:
///     for j: m = max(m, x[i, j])                 for j: m = max(m, x[i, j])
///     for j: e[j] = exp(x[i, j] - m)      ->     for j: e[j] = exp(x[i, j] - m);  prefetch x[i + 1, j]
///
///   1. of arrays that do not fit a core's own caches, which two rows do
///   2. of rows longer than a page into the second cache, where the pass computes so much that it does not wait for its
///      loads (measured on Zen 4, softmax of rows of 16 KiB: 0.6 of the time)
///   3. of shorter ones, which hardware follows into the second cache by itself, into the first, where the pass reduces
///      or computes much, four rows fit that cache, the array a quarter of the last one, and rows are of 24 lines at
///      the least and no multiple of 2 KB apart (layer norms of rows of 3 KB: 0.89, softmax 0.94)
///   4. of all passes that read the row again, the first that may
///
/// A pass that comes from memory itself, and once, asks for what the next iteration of an outer loop reads:
///
///   for io:  for jo:  for i of io:  sum[jo, ..] += x[i, jo ..];  prefetch x[i + io's step, jo ..]
///
///   5. of arrays that do not fit a core's own caches, of which an iteration of that loop reads more than a page and
///      leaves most to others
///   6. in a reduction that walks from row to row, where streams break off (sums of rows that stream by: 1.1 to 1.3
///      times as fast); or in a costly pass over rows that reads something else along each row anew (softmax over the
///      first axis: 1.3 times as fast)
///
/// The loop gets the annotations `prefetch_offset`, in elements, and `prefetch_cache`.
void prefetch_rows(RuleContext& context);

}  // namespace lathe
