#pragma once
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Computes the parts of what a block computes that hang on some of its iters alone in blocks of their own over these,
/// given by their positions, rather than once for every value of the others.
///
///   for i: for j: for k: c[i, j] +=              for i: for k: p[i, k] = exp(a[i, k])
///     exp(a[i, k]) * tanh(b[k, j])        ->     for i: for j: for k: c[i, j] += p[i, k] * tanh(b[k, j])
///
/// A part is as large as it can be, evaluates a function or divides, and loads something; parts that are alike are one.
/// Returns the blocks, which stand before the nest that holds block.
///
/// Requires:
///   1. block has such parts, of what it does not write itself, under no mask, and no predicate
///   2. nothing in the nest that holds block writes what they read
///   3. the elements that they read are proved to lie in their buffers for every value of the iters
std::vector<BlockRef> compute_apart(Schedule& schedule, const BlockRef& block, const std::vector<size_t>& iters);

/// The same of whatever is computed of one element of an input alone, which is computed for every element of it.
///
///   for i: for j: y[i, j] = sqrt(t[q[i, j]])     for e: t_part[e] = sqrt(t[e])
///                                          ->    for i: for j: y[i, j] = t_part[q[i, j]]
///
/// Requires 1 and 2.
std::vector<BlockRef> compute_apart(Schedule& schedule, const BlockRef& block, const std::string& buffer);

}  // namespace lathe
