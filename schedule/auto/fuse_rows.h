#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Moves each producer under the deepest loop that all its readers share and under which nothing is computed twice: the
/// stages of a normalization then run row by row, and what lies between them is a row that stays in the first cache.
///
///   for i: m[i] = max ..                 for i:
///   for i: for j: e[i, j] = ..             m[i] = max ..
///   for i: s[i] = sum e[i, ..]      ->     for j: e[i, j] = ..
///   for i: for j: out[i, j] = ..           s[i] = sum e[i, ..]
///                                          for j: out[i, j] = ..
void fuse_rows(RuleContext& context);

}  // namespace lathe
