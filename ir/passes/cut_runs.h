#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Stores and loads vectors that begin in one row and end in the next as two runs under masks, where the device has
/// registers for these: else each lane would be divided, and stored or loaded alone.
///
///   x[v // 80 * 2560 + v % 80] = y           let place = i*50 % 80;  let first = ramp(place, 1, 16) < 80
///       with v = ramp(i*50, 1, 16)     ->    x[ramp(i*50 // 80 * 2560 + place, 1, 16) if first] = y
///                                            x[ramp((i*50 + 15) // 80 * 2560 + .., 1, 16) if !first] = y
///
/// Axes that are joined and cut into panels of another width are walked so. Rows are at least as long as vectors, so
/// that there are two runs at the most; where there is one, the second touches nothing. Needs flat indices, and runs
/// behind passes that want each store as a statement of its own.
Func cut_runs(const Func& func, const Device& device);

}  // namespace lathe
