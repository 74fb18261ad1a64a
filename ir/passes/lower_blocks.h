#pragma once
#include "ir/func.h"

namespace lathe {

/// Dissolves blocks: iters become their bindings, predicates become Ifs.
///
///   for i: for j:                              for i: for j:
///     block C(vi = i*4 + j, where i*4+j < n)     if i*4 + j < n:
///       C[vi] = ..                       ->        C[i*4 + j] = ..
///
/// A block that allocates stays as a bare scope: no iters, no regions. Runs when scheduling is over and reductions have
/// lost their inits; everything behind it sees plain loops.
Func lower_blocks(const Func& func);

}  // namespace lathe
