#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Results for which an element is looked up, from which on it is kept (measured on Zen 4, bytes in a table of 256
/// floats, 768 x 1001 by 2 and 4 rows: 544 -> 318 and 1087 -> 346 us).
inline constexpr double results_that_share = 2;

/// Looks up once what a reduction finds element by element by the data of another array, where it would look each up
/// for several results: as decoded weights of a product, which are an operand like any other then.
///
///   for i: for j: for k: c[i, j] += a[i, k] * t[w[j, k]]
///     ->   for j: for k: b[j, k] = t[w[j, k]]
///          for i: for j: for k: c[i, j] += a[i, k] * b[j, k]
void look_up_once(RuleContext& context);

}  // namespace lathe
