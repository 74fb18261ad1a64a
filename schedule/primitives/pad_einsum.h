#pragma once
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Pads the domains of a contraction's iters to multiples, so that later splits are exact: operands are copied into
/// buffers with a border of zeros, and the result out of one.
///
///                                          for i in 0..8: for k in 0..12: block a_pad: a_pad[i, k] = a[i, k if ..]
///   for i in 0..5: for k in 0..10:   ->    for i in 0..8: for k in 0..12:
///     block C: C[i] += a[i, k] * b[k]        block C: C_pad[i] += a_pad[i, k] * b_pad[k]
///                                          for i in 0..5: block C_unpad: C[i] = C_pad[i]
///
/// `padding` has one factor an iter, in their order.
///
/// Requires:
///   1. block is a reduction from its identity that runs over its whole domain, each iter by a serial loop of its own,
///   with
///      no other block in those loops
///   2. padding has a factor of at least 1 for each iter, whose domains begin at 0
///   3. every Load of the terms is without a mask, at iters, each over a whole dimension, or 0
///   4. every Load uses each reduce iter that grows, and the terms are the identity where all Loads are zero
///   5. block writes at its space iters, each once, and is the only one to write there
void pad_einsum(Schedule& schedule, const BlockRef& block, const std::vector<std::int64_t>& padding);

}  // namespace lathe
