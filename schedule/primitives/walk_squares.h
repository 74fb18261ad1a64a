#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Makes a sum and the sum of squares about its mean in one walk, a block of terms at a time: each block's own, and how
/// far its mean lies from that of all before.
///
///   for i: for ko: for ki in 0..n:                      for i: block S_zero: s[i] = q[i] = 0
///     block S: s[i] += x[i, ko*n + ki]                  for i: for ko: for ki: block S_part: s_part[i, ko] += x[i,
///     ko*n + ki]
///   for i: block M: m[i] = s[i] / count          ->     for i: for ko: for ki:
///   for i: for k:                                         block Q_part: q_part[i, ko] += (x[i, ko*n + ki] - s_part[i,
///   ko]/n)^2
///     block Q: q[i] += (x[i, k] - m[i])^2               for i: for ko: block S:
///                                                         d = s_part[i, ko]/n - s[i]/(ko*n)
///                                                         q[i] += q_part[i, ko] + d^2 * n*ko/(ko + 1);  s[i] +=
///                                                         s_part[i, ko]
///                                                       for i: block M
///
/// `loop`, one of those of sum along the reduction, is that over the terms of a block; the others are walked in order.
/// (Chan, Golub and LeVeque, Algorithms for computing the sample variance, 1983.) Returns S_part, Q_part and S, which
/// gives both results.
///
/// Requires what part_squares does by 1 to 4, and
///   5. loop drives reduce iters of sum
std::vector<BlockRef> walk_squares(Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                   const LoopRef& loop);

}  // namespace lathe
