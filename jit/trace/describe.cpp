#include "jit/trace/describe.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/print.h"

namespace lathe {

std::string describe(const Expr& extent) {
  if (const std::int64_t* value = as_int(extent)) return std::to_string(*value);
  return print(extent);
}

std::string describe(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + describe(shape[i]);
  return text + "]";
}

std::string describe(const Tensor& tensor) {
  if (!tensor.is_weak()) return to_string(tensor.dtype()) + describe(tensor.shape());
  return tensor.dtype().is_float() ? "float scalar" : tensor.dtype().is_bool() ? "bool scalar" : "int scalar";
}

std::string describe(std::span<const Tensor> tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i) text += i + 1 == tensors.size() ? " and " : ", ";
    text += describe(tensors[i]);
  }
  return text;
}

void fail_value(std::string_view name, const std::string& message) {
  throw InputError(Mistake::value, fmt::format("{}: {}", name, message));
}

void fail_type(std::string_view name, const std::string& message) {
  throw InputError(Mistake::type, fmt::format("{}: {}", name, message));
}

}  // namespace lathe
