#pragma once
#include "ir/func.h"

namespace lathe {

/// Shrinks every allocation to the region that its scope really touches.
///
///   for i: alloc T[64, 8]              for i: alloc T[1, 8]
///     for j: T[i, j] = ..        ->      for j: T[0, j] = ..
///
/// A dimension shrinks where the least and the greatest index over the loops inside the scope are affine in what is
/// outside, and lie a constant apart. Strides that pad a dimension are kept, the others follow the smaller shape. What
/// comes down to one element of `global` or `worker`, and is not shared by a parallel or bound loop, moves to
/// registers. A hint that holds (lower_blocks leaves a scope with it) replaces the indices below it, and ends here.
/// Runs after allocations have moved to their innermost scope, and before flatten, which fixes strides. An allocation
/// that a view looks at keeps its shape.
Func compact_buffers(const Func& func);

}  // namespace lathe
