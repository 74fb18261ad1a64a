#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Computes in 32 bits what vectors of places come to where they are known to fit: half as many registers, and
/// products, quotients and conversions are instructions.
///
///   x[max(ramp(i*32 + 4, 2, 16) // 7 - 1, 0) + broadcast(b, 16)]
///     ->  x[cast<i64>(max(ramp(i*32 + 4, 2, 16) of i32 // 7 - 1, 0)) + broadcast(b, 16)]
///   cast<f32>(ramp(i*32 + 4, 2, 16) // 7)          ->  cast<f32>(ramp(..) of i32 // 7)
///   ramp(i*3, 3, 16) % 7 < broadcast(2, 16)        ->  the same of i32
///
/// Of what is loaded or stored at places that are no Ramp, of casts to floats, and of comparisons. Runs behind
/// flatten_buffers, and behind permute_windows, which knows places by their 64 bits, as cut_runs does: what that takes
/// stays as it is.
Func narrow_vectors(const Func& func, const Device& device);

}  // namespace lathe
