#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Rewrites every function that the machine has no instruction for into ones that it has.
///
///   C[ramp] = exp(A[ramp])    ->    let x = A[ramp]
///                                   let shifted = fma(x, log2(e), 1.5 * 2^23) ..
///                                   C[ramp] = ..
///
/// exp, exp2, log, tanh, erf, sigmoid, sin, cos and pow in f32 become polynomials (ir/passes/math), whatever the lane
/// count; other functions, and f64, become calls of SLEEF's vector functions for the device's instruction set, split
/// and padded to the lane counts that it has; copysign, nextafter, float floor_div and floor_mod, and integer pow
/// become arithmetic. f16 and bf16 are computed in f32. A value used twice is bound by a Let before its statement.
///
/// Runs last but for emission, after contract_fma, so that the polynomials keep the roundings that they are written
/// with.
Func lower_math(const Func& func, const Device& device);

}  // namespace lathe
