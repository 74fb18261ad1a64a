#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Turns accesses to what plan_storage placed in a space of the device's own into accesses of that space.
///
/// In a space with a head address a buffer becomes a binding to that address plus its place, in elements of its type:
///
///   memory { t: f32[64] offset 32 @vmem }         memory { vmem_f32: f32[2048] offset 16384 @vmem }
///   bound("core") for b in [0, 2) {         ->    bound("core") for b in [0, 2) {
///     t[i + 32] = ..                                let t_at = (65536 + b * 4096 + 128) // 4
///                                                   vmem_f32[t_at + i] = ..
///
/// `vmem_f32` begins at address 0; its offset and extent are those of the addresses in use. In a space of opaque
/// indices the buffer disappears:
///
///   memory { t: f32[64] offset 32 @tile }   ->    memory { tile_f32: f32[12, 8] @tile }
///   t[ramp(i * 8 + 32, 1, 8)] = ..                tile_f32[ramp((i + 4) * 8, 1, 8)] = ..     units of 256 bits
///
/// One buffer stands for each space and element type, so that no declaration is left of what went. Elements narrower
/// than a unit are its second dimension, and every access is of whole units: a unit's number times their count, then
/// all of them in order. The place of a head address' axis is the variable of the loop along it. The first pass of
/// `before_emit`: it rewrites the flat indices that flatten_buffers left. A Func without such spaces stays as it is.
///
/// Requires:
///   1. each axis in a head address is bound around the accesses
///   2. a head address is a multiple of the alignment that its buffers were planned with
///   3. an access to an opaque space is of whole units
///   4. no address is taken in an opaque space
Func device_storage_access(const Func& func, const Device& device);

}  // namespace lathe
