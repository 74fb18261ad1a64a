#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Has a sum and the sum of squares about its mean, which had to wait for it, not wait for each other: both take the
/// mean of the first terms off all, and what that is off by is mended at the end (Chan, Golub and LeVeque, Algorithms
/// for computing the sample variance, 1983, whose shift it is).
///
///   for i: for k:                          for i: for k in 0..t: block S_sample: sample[i] += x[i, k]
///     block S: s[i] += x[i, k]             for i: block S_centre: centre[i] = sample[i] / t
///   for i:                                 for i: for k: block S_shifted: s_off[i] += x[i, k] - centre[i]
///     block M: m[i] = s[i] / n       ->    for i: for k: block Q_shifted: q_off[i] += (x[i, k] - centre[i])^2
///   for i: for k:                          for i: block S: s[i] = s_off[i] + centre[i] * n
///     block Q: q[i] += (x[i, k] - m[i])^2  for i: block M
///                                          for i: block Q: q[i] = q_off[i] - s_off[i]^2 / n
///
/// A centre that is not finite is 0, squares are not below 0, and a sum or a mean that nobody else reads is left out.
/// `terms` says how many terms at the least make up the sample, the first ones along each axis. The squares lose the
/// accuracy that the difference between centre and mean takes of them: at the most n / t times what two walks lose,
/// where all of the sample lies far from all of the rest, and as much of the range; else a few times. The sum gains
/// what the difference is smaller, but sums of whole numbers are no longer exact. Where finite terms add up to more
/// than their type holds, squares are NaN. Annotations of the blocks go. Returns S_shifted and Q_shifted.
///
/// Requires:
///   1. sum is a sum of floats from 0, over constant domains along the reduction, runs over all of its domains,
///      each iter by a serial loop of its own, and stores at its space iters
///   2. squares is such a sum of the same type over the same domains, of squares of how far the terms of sum lie from a
///      mean
///   3. that mean is the result of sum over the number of its terms, by itself or as element-wise blocks between make
///      it, which alone write what they do
///   4. both stand side by side and alone write their results, and what stands between leaves alone what squares needs
///      and writes
///   5. terms is from 1 to the number of terms
std::vector<BlockRef> shift_squares(Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                    std::int64_t terms);

}  // namespace lathe
