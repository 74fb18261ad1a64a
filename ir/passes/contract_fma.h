#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Contracts a float product that feeds a sum or difference into fma, where the device has one.
///
///   let r = a * b      ->      C = fma(a, b, C)
///   C = C + r
///
/// A product that is skipped with minus zero, which adds nothing, is contracted under its condition where several sums
/// are on their way at a time:
///
///   let r = select(m, a * b, -0)      ->      C = select(m, fma(a, b, C), C)
///   C = C + r
///
/// Not for floats that feed an index, a condition, a comparison or a cast to integer, directly or through a Let: those
/// keep the bits that the program wrote. Runs before lower_math, whose polynomials say fma where they mean it.
Func contract_fma(const Func& func, const Device& device);

}  // namespace lathe
