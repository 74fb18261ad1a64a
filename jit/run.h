#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/func.h"
#include "jit/kernel.h"
#include "jit/tensor_view.h"

namespace lathe {

/// Checks arrays, in parameter order, against a program's parameters: dtypes, ranks, extents, strides, facts, and that
/// none that is written shares memory with another. A mistake is an InputError that names the parameter. Scalars are as
/// the kernel ABI has them.
void check_arguments(const Func& func, std::span<const TensorView> arrays, std::span<const std::int64_t> scalars);

/// Runs a program that `kernel` was compiled from, on arguments that are checked first.
void run_kernel(const Func& func, const Kernel& kernel, std::span<const TensorView> arrays,
                std::span<const std::int64_t> scalars);
/// The same on the interpreter.
void run_interpreted(const Func& func, std::span<const TensorView> arrays, std::span<const std::int64_t> scalars);

/// A scalar argument's 64 bits for a parameter of `dtype`.
std::int64_t scalar_bits(DType dtype, double value);

/// An extent over the scalar parameters, as a number.
std::int64_t evaluate_extent(const Func& func, const Expr& extent, std::span<const std::int64_t> scalars);

/// "f32[2, 3] [[1, 2, 3], [4, 5, 6]]", long arrays shortened.
std::string summarize(const TensorView& view);

}  // namespace lathe
