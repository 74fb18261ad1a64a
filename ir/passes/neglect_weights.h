#pragma once
#include "ir/func.h"

namespace lathe {

/// Lets weights of a softmax that only go into sums be zero where they would be denormal numbers: some cores call
/// microcode for each vector that holds one, in the exponential and again in every product (measured on Cascade Lake:
/// 50 ns), as scores have them that fall with the distance.
///
///   p[i, k] = exp(at_most(s[i, k] - m[i], 0))      p[i, k] = exp(negligible(at_most(s[i, k] - m[i], 0), -87.25))
///   l[i] += p[i, k]                            ->  l[i] += p[i, k]
///   o[i, d] += p[i, k] * v[k, d]                   o[i, d] += p[i, k] * v[k, d]
///
/// A softmax has a weight of 1 in each of its sums, beside which these are below 2^-126. Applies to exponentials of f32
/// in the terms of sums, and to those that a buffer of the Func's own takes to them, as factors and nothing else; what
/// a softmax gives as its result keeps its denormals. Runs while reductions say what they are, before lower_reductions.
Func neglect_weights(const Func& func);

}  // namespace lathe
