#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Walks the parts of a row that a block was cut into one behind the other, so that memory is passed over once.
///
///   for i: for j in 0..4: y[i, j] = x[i, 0]                for i:
///   for i: for j in 0..96: y[i, j + 4] = x[i, j]     ->      for j in 0..4: y[i, j] = x[i, 0]
///                                                            for j in 0..96: y[i, j + 4] = x[i, j]
///
///   1. nests of one element-wise block each that stand beside each other and store to one array, which leaves the
///      first cache
///   2. the loops outside of which walk it alike, and whose rows stay in the core's own caches (measured on Zen 4, two
///      arrays of 776x1232 floats beside each other 0.85 of the time, of 500x2000 0.9, of 60x16000 as long)
void join_parts(RuleContext& context);

}  // namespace lathe
