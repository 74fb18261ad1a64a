#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Computes once along a loop what does not depend on it.
///
///   for i: for j: block A: a[i, j] = exp(x[i])        for i: block A: a[i, 0] = exp(x[i])
///   for i: for j: block B: b[i, j] = a[i, j] * y[j]   for i: for j: block B: b[i, j] = a[i, 0] * y[j]
///
/// The buffer keeps its dimensions, this one with one element, of which all readers read that. So a function of what
/// was broadcast is evaluated as often as before that, and an index that several elements share is checked once.
///
/// Requires:
///   1. block has only space and reduce iters, and runs over its whole domain, each iter by a serial loop of its own,
///      with no other block in loop
///   2. loop drives a space iter of block, from 0 over a constant extent of at least 1
///   3. block alone writes one buffer, an allocation, at its space iters, each once, or 0 in a dimension of one element
///   4. everything that touches the buffer is a Load or a Store at scalar indices, without a hint
///   5. nothing that block computes uses the iter, but to read what it has written itself
void compute_once(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
