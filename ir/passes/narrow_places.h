#pragma once
#include "ir/func.h"

namespace lathe {

/// Keeps the places that a reduction carries, beside the values that it compares, in 32 bits where they are known to
/// fit: half as many registers and instructions.
///
///   alloc p: i64[1, 16] @register                alloc p: i32[1, 16] @register
///   p[ramp(0, 1, 16)] = ramp(0, 1, 16)           p[ramp(0, 1, 16)] = ramp(0, 1, 16) of i32
///   for i in [0, 64) {                     ->    for i in [0, 64) {
///     let l = p[ramp(0, 1, 16)]                    let l = p[ramp(0, 1, 16)]
///     p[ramp(0, 1, 16)] =                          p[ramp(0, 1, 16)] =
///         select(c, ramp(i*16, 1, 16), l)              select(c, ramp(i*16, 1, 16) of i32, l)
///
/// Of the kernel's own buffers of i64 each of whose stores is a place, by what is known of loops, or what the buffer
/// held. Runs behind the vectorizer, which makes vectors of places, and before memory is laid out.
Func narrow_places(const Func& func);

}  // namespace lathe
