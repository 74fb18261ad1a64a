#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Moves every allocation into the innermost loop body that holds all of its uses.
///
///   block root: alloc T[64, 8]              for i:
///     for i:                          ->      block: alloc T[64, 8]
///       for j: T[i, j] = ..                     for j: T[i, j] = ..
///       for j: B[i, j] = f(T[i, j])             for j: B[i, j] = f(T[i, j])
///
/// Never into a loop that carries values of the buffer from one iteration to another, and never into a vectorized or
/// unrolled loop, whose iterations share registers. Into a loop along an axis of the device moves what lies in a space
/// that exists per that axis, and nothing else but registers; into a parallel one workspaces and registers. A loop's
/// annotation may promise that each iteration writes a buffer before it reads it (private_key in regions.h). Runs
/// behind lower_blocks and before compact_buffers, which then shrinks the buffer to what one iteration touches; a
/// buffer that lands in a parallel loop becomes private to a worker. An allocation without uses goes.
Func place_allocations(const Func& func, const Device& device);

}  // namespace lathe
