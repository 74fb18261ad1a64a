#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Stores side by side what an unrolled loop over few elements, inside of vectors, would store element by element.
///
///   unrolled for t in [0, 4) { p[ramp(j + t, 4, 16)] = v(t) }   ->   p[ramp(j, 1, 64)] = shuffle([v(0), .., v(3)], [0,
///   16, 32, 48, 1, ..])
///
/// Three become three stores, each of whose vectors is picked out of all three values: no machine stores 48 lanes. So
/// do up to 16 where the device has masks, and with them shuffles of any two vectors in one instruction.
///
/// This is how operands are laid out for dot products, and how few channels come to stand inside of pixels. Needs flat
/// indices, and runs before unroll_loops, which takes such loops away.
Func interleave_stores(const Func& func, const Device& device);

}  // namespace lathe
