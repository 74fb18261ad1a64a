#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// The annotation by which a loop over tiles says that conditions of its loads alone are worth no second body.
inline constexpr const char* masked_loads_key = "masked_loads";

/// Lets rows of temporaries reach to the end of their last tile, so that what happens among temporaries needs no
/// condition, and what is read for them is masked where it is read: all tiles are alike, and compile once.
///
///   alloc sum[1003], part[64] @register          alloc sum[1024], part[64] @register
///   for jo in 0..16:                             for jo in 0..16 @{masked_loads: 1}:
///     for j in 0..64 vectorized:                   for j in 0..64 vectorized:
///       if jo*64 + j < 1003:                         part[j] = 0.0
///         part[j] = 0.0                      ->    for i in 0..8:
///     for i in 0..8:                                 for j in 0..64 vectorized:
///       for j in 0..64 vectorized:                     part[j] = part[j] + x[i, jo*64 + j if jo*64 + j < 1003]
///         if jo*64 + j < 1003:                     for j in 0..64 vectorized:
///           part[j] = part[j] + x[i, jo*64 + j]      sum[jo*64 + j] = part[j]
///     for j in 0..64 vectorized:
///       if jo*64 + j < 1003: sum[jo*64 + j] = part[j]
///
/// What a condition leaves out goes to the ends of such rows alone, which nobody else reads. It stays where
///   - the device has no mask registers,
///   - a statement stores elsewhere too, or might trap,
///   - another condition cuts the same loop in two in any case,
///   - a load would be masked that stands in no loop of several iterations which share the mask, tiles are few, or the
///     vectors of one need more masks than there are registers for.
/// Runs before partition_loops, which would give the last tile a body of its own.
Func pad_temporaries(const Func& func, const Device& device);

}  // namespace lathe
