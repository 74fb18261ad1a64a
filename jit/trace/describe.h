#pragma once
#include <span>
#include <string>

#include "jit/trace/tensor.h"

namespace lathe {

/// "3", "n", "2*n": an extent as messages show it.
std::string describe(const Expr& extent);
/// "[3, 4]"
std::string describe(const Shape& shape);
/// "f32[3, 4]"; a weak scalar is a "bool scalar", "int scalar" or "float scalar".
std::string describe(const Tensor& tensor);
/// "f32[3, 4] and f32[5]"
std::string describe(std::span<const Tensor> tensors);

/// Throw an InputError whose message is "NAME: MESSAGE".
[[noreturn]] void fail_value(std::string_view name, const std::string& message);
[[noreturn]] void fail_type(std::string_view name, const std::string& message);

}  // namespace lathe
