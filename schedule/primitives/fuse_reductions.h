#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Merges a maximum or minimum into sums over the same axis whose terms need its result, so that one walk along the
/// axis gives them all: a tuple reduction, `step` elements of the axis at a time.
///
///   for i: for k: block M: m[i] = max(m[i], s[i, k])
///   for i: for k: block P: p[i, k] = exp(s[i, k] - m[i])
///   for i: for k: block L: l[i] += p[i, k]
///   for i: for d: for k: block O: o[i, d] += p[i, k] * v[k, d]
///     ->
///   for i: for ko: for ki: block M_part: m_part[i, ko] = max(m_part[i, ko], s[i, ko*step + ki])
///   for i: for ko: for ki: block P: p_part[i, ko, ki] = exp(s[i, ko*step + ki] - m_part[i, ko])
///   for i: for ko: for ki: block L_part: l_part[i, ko] += p_part[i, ko, ki]
///   for i: for ko: for d: for ki: block O_part: o_part[i, ko, d] += p_part[i, ko, ki] * v[ko*step + ki, d]
///   for i: for ko: block M: (m, l_sum, o_sum)[i] = (m', l_sum * exp(m - m') + l_part * exp(m_part - m'), ..)
///     where m' = max(m, m_part[i, ko]); o_sum[i] is one vector, all d at once
///   for i: block L: l[i] = l_sum[i]            for i: for d: block O: o[i, d] = o_sum[i, d]
///
/// The factor is found on the expression (schedule/homomorphism.h): exp(x - m) = exp(x - m') * exp(m' - m).
/// Element-wise blocks between, as P, go along. Blocks that need the results come behind. Sums are taken in another
/// order, one that depends on extents and `step` alone. While all of a row is the reduction's identity (-inf of a
/// maximum), 0 stands for it in the terms, and blocks L and O give what their terms would then have come to (exp(inf));
/// so NaN and infinities are those of the program before, as long as no weight of an infinite factor underflows.
///
/// Requires:
///   1. first is a maximum or minimum of floats from its identity over one axis, runs over its whole domain, each iter
///   by
///      a serial loop of its own, and writes at its space iters
///   2. step is at least 1 and divides the axis' extent, a constant
///   3. each of rest is a sum of the same type from 0, over one axis of that extent, that runs and writes likewise
///   4. each of rest reads first's result at its own space iters, directly or through an element-wise block over the
///   axis
///      that only they read, and has at most one further space iter, of a constant extent of 512 or less
///   5. its terms follow first's result by a factor, with no exponent that grows past what it is in the end
///   6. all stand side by side, and what stands between them and needs none of them leaves what they touch alone, while
///      what does need them is not needed by them
/// Returns the tuple reduction, which keeps first's name.
BlockRef fuse_reductions(Schedule& schedule, const BlockRef& first, const std::vector<BlockRef>& rest,
                         std::int64_t step);

}  // namespace lathe
