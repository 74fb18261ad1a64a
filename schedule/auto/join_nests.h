#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Joins nests that are left beside each other, so that what they share is fetched once: each output has one of its
/// own, and a mean beside a variance would read its rows twice.
///
///   for i: for k: sum[i] += x[i, k]            for i:
///   for i: mean[i] = sum[i] / n          ->      for k: sum[i] += x[i, k]
///   for i: for k: squares[i] += ..               for k: squares[i] += .. x[i, k] .. sum[i]
///                                            for i: mean[i] = sum[i] / n
///
///   1. element-wise blocks over the same domain that walk memory alike and share a load, or an element that one stores
///      and the other loads, become one block
///   2. nests that share rows which are longer than a few vectors, of arrays that leave the first cache, get one loop
///      over rows, where all rows of an iteration stay in a core's own caches
///   3. reductions along memory that share their terms, of arrays that leave the first cache, and do not wait for each
///      other get one loop for each dimension of their results
void join_nests(RuleContext& context);

}  // namespace lathe
