#include "jit/trace/promotion.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "jit/trace/describe.h"
#include "jit/trace/tensor_node.h"

namespace lathe {
namespace {

enum class Kind { boolean, integer, floating };

Kind kind_of(DType dtype) {
  return dtype.is_bool() ? Kind::boolean : dtype.is_integer() ? Kind::integer : Kind::floating;
}

/// Does a Python number of kind `weak` mix with arrays of kind `array`?
bool gives_way(Kind weak, Kind array) {
  return weak == array || (weak == Kind::integer && array == Kind::floating);
}

/// A literal int must be representable in the integer type that it gives way to.
void check_range(std::string_view name, const Tensor& scalar, DType dtype) {
  if (scalar.node()->kind != TensorKind::literal || !dtype.is_integer()) return;
  const std::int64_t value = *as_int(scalar.node()->value);
  const bool fits = dtype == u64 ? value >= 0 : wrap_integer(dtype, value) == value;
  if (!fits) fail_value(name, fmt::format("the int {} does not fit {}", value, to_string(dtype)));
}

}  // namespace

bool is_accepted(unsigned accepts, DType dtype) {
  if (dtype.is_bool()) return accepts & accepts_bool;
  if (dtype.is_signed()) return accepts & accepts_signed;
  if (dtype.is_unsigned()) return accepts & accepts_unsigned;
  return accepts & accepts_float;
}

std::string describe_accepted(unsigned accepts) {
  std::string text;
  for (DType dtype : all_dtypes) {
    if (is_accepted(accepts, dtype)) text += (text.empty() ? "" : ", ") + to_string(dtype);
  }
  return text;
}

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  if (kind_of(a) != kind_of(b)) return std::nullopt;
  if (a.code == b.code) return a.bits > b.bits ? a : b;
  if (a.is_float()) return std::max(a.bits, b.bits) == 64 ? f64 : f32;
  const DType with_sign = a.is_signed() ? a : b;
  const DType without = a.is_signed() ? b : a;
  if (with_sign.bits > without.bits) return with_sign;
  if (without.bits == 64) return std::nullopt;
  return DType{TypeCode::integer, static_cast<std::uint8_t>(without.bits * 2), 1};
}

DType result_type(std::string_view name, std::span<const Tensor> operands, unsigned accepts) {
  std::optional<DType> common;
  for (const Tensor& tensor : operands) {
    if (tensor.is_weak()) continue;
    const std::optional<DType> next = common ? promote(*common, tensor.dtype()) : tensor.dtype();
    if (!next) {
      fail_type(name, fmt::format("dtypes do not mix: given {}; expected all floating, all integer (u64 only with "
                                  "unsigned ones) or all bool",
                                  describe(operands)));
    }
    common = next;
  }
  const std::optional<DType> strong = common;
  for (const Tensor& tensor : operands) {
    if (!tensor.is_weak()) continue;
    if (!strong) {
      common = common && kind_of(*common) > kind_of(tensor.dtype()) ? *common : tensor.dtype();
    } else if (gives_way(kind_of(tensor.dtype()), kind_of(*strong))) {
      check_range(name, tensor, *strong);
    } else {
      fail_type(name, fmt::format("dtypes do not mix: given {}; expected scalars of the arrays' kind, or an int with "
                                  "floats",
                                  describe(operands)));
    }
  }
  LATHE_CHECK(common, "an operator without operands has no result type");
  if (!is_accepted(accepts, *common)) {
    fail_type(name, fmt::format("takes {}; given {}", describe_accepted(accepts), describe(operands)));
  }
  return *common;
}

DType array_type(std::string_view name, std::span<const Tensor> operands) {
  const DType common = result_type(name, operands);
  const bool weak = std::all_of(operands.begin(), operands.end(), [](const Tensor& t) { return t.is_weak(); });
  return weak && common.is_float() ? f32 : common;
}

DType arithmetic_type(DType dtype) {
  return dtype.is_float() && dtype.bits == 16 ? f32 : dtype;
}

Expr convert(DType dtype, const Expr& value) {
  if (value->dtype == dtype) return value;
  if (const IntImm* constant_int = value.as<IntImm>()) {
    if (value->dtype != u64 || dtype.is_integer()) return constant(dtype, constant_int->value);
  }
  if (const FloatImm* constant_float = value.as<FloatImm>(); constant_float && dtype.is_float()) {
    return constant(dtype, constant_float->value);
  }
  return cast(dtype, value);
}

}  // namespace lathe
