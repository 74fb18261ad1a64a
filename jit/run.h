#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jit/kernel.h"
#include "jit/parameters.h"
#include "jit/tensor_view.h"

namespace lathe {

/// Runs a program that `kernel` was compiled from, on arguments that are checked first.
void run_kernel(const Parameters& parameters, const Kernel& kernel, std::span<const TensorView> arrays,
                std::span<const std::int64_t> scalars);
/// The same on the interpreter.
void run_interpreted(const Parameters& parameters, std::span<const TensorView> arrays,
                     std::span<const std::int64_t> scalars);

/// A scalar argument's 64 bits for a parameter of `dtype`.
std::int64_t scalar_bits(DType dtype, double value);

/// "f32[2, 3] [[1, 2, 3], [4, 5, 6]]", long arrays shortened.
std::string summarize(const TensorView& view);

}  // namespace lathe
