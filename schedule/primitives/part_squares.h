#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Takes a sum and the sum of squares about its mean apart into those of parts, each about a mean of its own.
///
///   for i: for p: for k in 0..n:                          for i: for p: for k: block S_part: s_part[i, p] += x[i, p,
///   k]
///     block S: s[i] += x[i, p, k]                         for i: for p: for k:
///   for i: block M: m[i] = s[i] / count            ->       block Q_part: q_part[i, p] += (x[i, p, k] - s_part[i, p] /
///   n)^2 for i: for p: for k:                                  for i: for p: block S: s[i] += s_part[i, p]
///     block Q: q[i] += (x[i, p, k] - m[i])^2              for i: block M
///                                                         for i: for p: block Q: q[i] += q_part[i, p] + n * (s_part[i,
///                                                         p] / n - m[i])^2
///
/// The terms are read in one walk then, if the parts are made together: `loops` are those that go over parts, the
/// others of the sum along the reduction stay within. The partial results get a last dimension for each of `loops`.
/// (Chan, Golub and LeVeque, Algorithms for computing the sample variance, 1983.) Returns S_part and Q_part, which are
/// such a pair.
///
/// Requires:
///   1. sum is a sum of floats from 0 that stores at its space iters, each driven by a serial loop of its own, and its
///      reduce iters by others of constant extents
///   2. squares is such a sum of the same type over the same domains, each iter driven by a loop of its own, of squares
///      of how far the terms of sum lie from a mean
///   3. that mean is the result of sum over the number of its terms
///   4. both stand side by side and alone write their results, and what stands between leaves alone what squares needs
///      and writes
///   5. loops are some of those that drive the sum's reduce iters, but not all, each once
std::vector<BlockRef> part_squares(Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                   const std::vector<LoopRef>& loops);

}  // namespace lathe
