#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Computes functions that stand in the bodies of other operators, and that come out alike along some of their axes,
/// once for all of these, or once for each element of the buffer that they are of.
///
///   for i: for j: for k: c[i, j] += a[i, k] * exp(b[k, j])     for k: for j: p[k, j] = exp(b[k, j])
///                                                         ->   for i: for j: for k: c[i, j] += a[i, k] * p[k, j]
void part_functions(RuleContext& context);

/// Computes what is done to an element that data looks up in a short table for each element of that, once operators are
/// one block with what they read.
///
///   for i: y[i] = sqrt(t[q[i]])     ->   for e: p[e] = sqrt(t[e])
///                                        for i: y[i] = p[q[i]]
void part_tables(RuleContext& context);

}  // namespace lathe
