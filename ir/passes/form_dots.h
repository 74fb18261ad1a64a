#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Makes the instances of a device's dot products, which tensorize has marked, calls of the intrinsic `dot`.
///
///   for t in [0, 4) @{tensorize: "dot4_u8_i8"} {                         C[r] = dot(C[r],
///     C[r] = C[r] + cast<i32>(broadcast(a[i + t], 16))            ->                shuffle([a[ramp(i, 1, 4)]], [0, 1,
///     2, 3, 0, ..]),
///                 * cast<i32>(b[ramp(j + t, 4, 16)])                                b[ramp(j, 1, 64)])
///   }
///
/// A sum with a dot_bytes from zero becomes one that begins with the sum: `x + dot_bytes(0, a, b)` is
/// `dot_bytes(x, a, b)`. So does one with a dot_halves, which only precision `default` makes.
///
/// A loop that is marked but has no such form stays what it is: its own meaning. Needs flat indices, and runs before
/// contract_fma, which would take the products apart.
Func form_dots(const Func& func, const Device& device);

}  // namespace lathe
