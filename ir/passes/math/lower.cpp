#include <optional>

#include "ir/passes/math/functions.h"

namespace lathe::math {
namespace {

bool is_half(DType dtype) {
  return dtype.is_float() && dtype.bits == 16;
}
bool is_f32(DType dtype) {
  return dtype.element() == f32;
}

/// Of either width.
Expr own_float(Builder& b, UnaryOp op, const Expr& x, double highest) {
  const bool fused = b.device().fused_multiply_add;
  switch (op) {
    case UnaryOp::expm1:
      return expm1_float(b, x, highest);
    case UnaryOp::sinh:
      return sinh_float(b, x);
    case UnaryOp::cosh:
      return cosh_float(b, x);
    case UnaryOp::tan:
      return fused ? tan_float(b, x) : nullptr;
    case UnaryOp::asin:
      return fused ? asin_float(b, x) : nullptr;
    case UnaryOp::acos:
      return fused ? acos_float(b, x) : nullptr;
    case UnaryOp::atan:
      return fused ? atan_float(b, x) : nullptr;
    default:
      return nullptr;
  }
}

Expr own_f32(Builder& b, UnaryOp op, const Expr& x, double highest) {
  const bool fused = b.device().fused_multiply_add;
  switch (op) {
    case UnaryOp::exp:
      return exp_f32(b, x, highest);
    case UnaryOp::exp2:
      return exp2_f32(b, x, highest);
    case UnaryOp::log:
      return log_f32(b, x);
    case UnaryOp::log1p:
      return log1p_f32(b, x);
    case UnaryOp::log2:
      return fused ? log2_f32(b, x) : nullptr;
    case UnaryOp::log10:
      return fused ? log10_f32(b, x) : nullptr;
    case UnaryOp::tanh:
      return tanh_f32(b, x);
    case UnaryOp::sigmoid:
      return sigmoid_f32(b, x);
    case UnaryOp::erf:
      return erf_f32(b, x);
    case UnaryOp::sin:
      return sin_float(b, x);
    case UnaryOp::cos:
      return cos_float(b, x);
    default:
      return own_float(b, op, x, highest);
  }
}

Expr own_f64(Builder& b, UnaryOp op, const Expr& x, double highest) {
  const bool fused = b.device().fused_multiply_add;
  switch (op) {
    case UnaryOp::exp:
      return exp_f64(b, x, highest);
    case UnaryOp::log:
      return log_f64(b, x);
    case UnaryOp::log1p:
      return log1p_f64(b, x);
    case UnaryOp::log2:
      return fused ? log2_f64(b, x) : nullptr;
    case UnaryOp::log10:
      return fused ? log10_f64(b, x) : nullptr;
    case UnaryOp::tanh:
      return tanh_f64(b, x);
    case UnaryOp::erf:
      return b.permutes(f64, 16) ? erf_f64(b, x) : nullptr;
    case UnaryOp::sin:
      return fused ? sin_float(b, x) : nullptr;
    case UnaryOp::cos:
      return fused ? cos_float(b, x) : nullptr;
    default:
      return own_float(b, op, x, highest);
  }
}

/// Has every machine an instruction, or is it a test of bits?
bool is_native(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::bit_not:
    case UnaryOp::logical_not:
    case UnaryOp::abs:
    case UnaryOp::sqrt:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::trunc:
    case UnaryOp::round:
    case UnaryOp::is_nan:
    case UnaryOp::is_inf:
    case UnaryOp::is_finite:
    case UnaryOp::signbit:
      return true;
    default:
      return false;
  }
}

Expr pow_float(Builder& b, const Expr& x, const Expr& y) {
  if (const auto exponent = constant_value(y)) {
    if (is_constant_power(x->dtype, *exponent)) return pow_constant(b, x, *exponent);
  }
  return x->dtype.bits == 32 ? pow_f32(b, x, y) : library_binary(b, BinaryOp::pow, x, y);
}

}  // namespace

std::optional<double> constant_value(const Expr& e) {
  const Broadcast* broadcast = e.as<Broadcast>();
  const FloatImm* number = broadcast ? broadcast->value.as<FloatImm>() : e.as<FloatImm>();
  return number ? std::optional(number->value) : std::nullopt;
}

Expr lower_unary(Builder& b, UnaryOp op, const Expr& a, double highest) {
  if (is_native(op)) return nullptr;
  if (is_half(a->dtype)) return cast(a->dtype, lower_unary(b, op, cast(f32, a), highest));
  const Expr x = b.bind("argument", a);
  Expr own = is_f32(x->dtype) ? own_f32(b, op, x, highest) : own_f64(b, op, x, highest);
  return b.bind("value", own ? std::move(own) : library_unary(b, op, x));
}

Expr lower_binary(Builder& b, BinaryOp op, const Expr& left, const Expr& right) {
  const DType type = left->dtype;
  const bool is_float = type.is_float();
  switch (op) {
    case BinaryOp::copysign:
      return copysign_bits(left, right);
    case BinaryOp::nextafter:
      return b.bind("value", nextafter_bits(b, b.bind("x", left), b.bind("y", right)));
    case BinaryOp::pow:
      break;
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod:
    case BinaryOp::atan2:
    case BinaryOp::hypot:
      if (!is_float) return nullptr;
      break;
    default:
      return nullptr;
  }
  if (is_half(type)) return cast(type, lower_binary(b, op, cast(f32, left), cast(f32, right)));
  const Expr x = b.bind("x", left), y = b.bind("y", right);
  switch (op) {
    case BinaryOp::floor_div:
      return b.bind("value", floor_div_float(b, x, y));
    case BinaryOp::floor_mod:
      return b.bind("value", floor_mod_float(b, x, y));
    case BinaryOp::pow:
      if (is_float) return b.bind("value", pow_float(b, x, y));
      if (const std::int64_t* exponent = as_int(y); exponent && *exponent >= 0)
        return b.bind("value", pow_by_squaring(b, x, *exponent));
      return b.bind("value", pow_integer(b, x, y));
    case BinaryOp::hypot:
      return b.bind("value", hypot_float(b, x, y));
    case BinaryOp::atan2:
      if (b.device().fused_multiply_add) return b.bind("value", atan2_float(b, x, y));
      [[fallthrough]];
    default:
      return b.bind("value", library_binary(b, op, x, y));
  }
}

}  // namespace lathe::math
