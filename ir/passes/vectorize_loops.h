#pragma once
#include "ir/func.h"

namespace lathe {

/// The annotation by which a vectorized loop says that no instruction takes masks of some of its elements: what a
/// condition leaves of it runs lane by lane.
inline constexpr const char* unmasked_key = "unmasked";

/// Turns vectorized loops into vector statements.
///
///   for j in 0..8 vectorized:          let mask = ramp(io*8, 1, 8) < broadcast(n, 8)
///     if io*8 + j < n:            ->   B[ramp(io*8, 1, 8)] = A[ramp(io*8, 1, 8), mask], mask
///       B[io*8 + j] = A[io*8 + j]
///
/// What does not depend on the loop variable stays scalar, and is broadcast where a vector needs it. Conditions that
/// vary become masks, computed once; a scalar load under a mask happens only when some lane wants it. What has no
/// vector form (inner loops of varying extent, While, extern calls, stores to one place) runs lane by lane in a serial
/// loop, and so does a vectorized loop around vectors, or one of unknown extent. A loop of which a condition leaves the
/// first iteration alone is no loop, but where it writes to registers that hold many vectors, and what a condition
/// leaves of one without masks (unmasked_key) is a serial one.
/// Runs before unroll_loops, so that each body is vectorized once.
Func vectorize_loops(const Func& func);

}  // namespace lathe
