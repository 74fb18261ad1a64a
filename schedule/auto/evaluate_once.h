#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Evaluates once what comes out alike along an axis, as a function of what was broadcast along it does, or an index of
/// whole rows: where that is more than a copy, and with it the copies that it reads.
///
///   for i: for j: b[i, j] = p[i]                       for i: b[i, 0] = p[i]
///   for i: for j: q[i, j] = check(b[i, j])      ->     for i: q[i, 0] = check(b[i, 0])
///   for i: for j: y[i, j] = x[q[i, j], j]              for i: for j: y[i, j] = x[q[i, 0], j]
void evaluate_once(RuleContext& context);

}  // namespace lathe
