#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Has a sum and the sum of squares about its mean, which had to wait for it, not wait for each other: both take the
/// mean of the first terms off all, and what that is off by is mended at the end (Chan, Golub and LeVeque, Algorithms
/// for computing the sample variance, 1983, whose shift it is).
///
///   for i: for k: block S: s[i] += x[i, k]              for i: for k in 0..t: block S_sample: sample[i] += x[i, k]
///   for i: block M: m[i] = s[i] / n              ->     for i: block S_centre: centre[i] = sample[i] / t, or 0 if not
///   finite for i: for k: block Q: q[i] += (x[i, k] - m[i])^2   for i: for k: block S_shifted: s_off[i] += x[i, k] -
///   centre[i]
///                                                       for i: for k: block Q_shifted: q_off[i] += (x[i, k] -
///                                                       centre[i])^2 for i: block S: s[i] = s_off[i] + centre[i] * n
///                                                       for i: block Q: q[i] = q_off[i] - s_off[i]^2 / n, but not
///                                                       below 0 for i: block M
///
/// `terms` says how many terms at the least make up the sample. The squares lose the accuracy that the differences
/// between centre and mean take of them, at the most n / t times what two walks lose, where all of the sample lies far
/// from all of the rest; else a few times. The mean gains what the difference is smaller. Returns S_shifted and
/// Q_shifted.
///
/// Requires:
///   1. sum is a sum of floats from 0 over constant domains, runs over all of them, each iter by a serial loop of its
///      own, and stores at its space iters
///   2. squares is such a sum of the same type over the same domains, of squares of how far the terms of sum lie from a
///      mean
///   3. that mean is the result of sum over the number of its terms
///   4. both stand side by side and alone write their results, and what stands between leaves alone what squares needs
///      and writes
///   5. terms is from 1 to the number of terms
std::vector<BlockRef> shift_squares(Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                    std::int64_t terms);

}  // namespace lathe
