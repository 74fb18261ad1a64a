#include "jit/trace/ops/arithmetic.h"

#include <fmt/format.h>

#include <array>

#include "ir/intrinsics.h"
#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/elementwise.h"

namespace lathe::ops {
namespace {

using Elements = std::vector<Expr>;

Tensor binary_operator(std::string_view name, BinaryOp op, unsigned accepts, const Tensor& a, const Tensor& b) {
  return elementwise(name, {a, b}, accepts, Result::common, [op](const Elements& e) { return binary(op, e[0], e[1]); });
}

Tensor identity(std::string_view name, const Tensor& x, unsigned accepts) {
  result_type(name, std::array{x}, accepts);
  return x;
}

/// The neighbour of x toward y, both of the 16-bit type `dtype`, on the bits: magnitudes of one sign are ordered as
/// integers.
Expr next_half(DType dtype, const Expr& x, const Expr& y) {
  const Expr bits = reinterpret(i16, x);
  const Expr wide_x = cast(f32, x), wide_y = cast(f32, y), zero = constant(f32, 0.0);
  const Expr away = eq(lt(wide_x, wide_y), gt(wide_x, zero));
  const Expr step = select(away, constant(i16, 1), constant(i16, -1));
  const Expr least = select(lt(wide_y, zero), constant(i16, std::int64_t{-0x7fff}), constant(i16, 1));
  const Expr moved = reinterpret(dtype, select(eq(wide_x, zero), least, bits + step));
  const Expr nan = cast(dtype, wide_x + wide_y);
  const Expr unordered = logical_or(unary(UnaryOp::is_nan, wide_x), unary(UnaryOp::is_nan, wide_y));
  return select(unordered, nan, select(eq(wide_x, wide_y), y, moved));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  return binary_operator("add", BinaryOp::add, accepts_number, a, b);
}
Tensor subtract(const Tensor& a, const Tensor& b) {
  return binary_operator("subtract", BinaryOp::sub, accepts_number, a, b);
}
Tensor multiply(const Tensor& a, const Tensor& b) {
  return binary_operator("multiply", BinaryOp::mul, accepts_number, a, b);
}
Tensor divide(const Tensor& a, const Tensor& b) {
  return binary_operator("divide", BinaryOp::div, accepts_float, a, b);
}
Tensor floor_divide(const Tensor& a, const Tensor& b) {
  return binary_operator("floor_divide", BinaryOp::floor_div, accepts_number, a, b);
}
Tensor remainder(const Tensor& a, const Tensor& b) {
  return binary_operator("remainder", BinaryOp::floor_mod, accepts_number, a, b);
}
Tensor pow(const Tensor& a, const Tensor& b) {
  return binary_operator("pow", BinaryOp::pow, accepts_number, a, b);
}
Tensor maximum(const Tensor& a, const Tensor& b) {
  return binary_operator("maximum", BinaryOp::max, accepts_number, a, b);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return binary_operator("minimum", BinaryOp::min, accepts_number, a, b);
}
Tensor hypot(const Tensor& a, const Tensor& b) {
  return binary_operator("hypot", BinaryOp::hypot, accepts_float, a, b);
}
Tensor copysign(const Tensor& a, const Tensor& b) {
  return binary_operator("copysign", BinaryOp::copysign, accepts_float, a, b);
}

Tensor nextafter(const Tensor& a, const Tensor& b) {
  const std::array operands{a, b};
  const DType dtype = result_type("nextafter", operands, accepts_float);
  if (arithmetic_type(dtype) == dtype) return binary_operator("nextafter", BinaryOp::nextafter, accepts_float, a, b);
  return compute(
      broadcast_shapes("nextafter", operands),
      [=](const Indices& i) {
        return next_half(dtype, convert(dtype, at_broadcast(a, i)), convert(dtype, at_broadcast(b, i)));
      },
      "nextafter");
}

Tensor abs(const Tensor& x) {
  return elementwise("abs", {x}, accepts_number, Result::common,
                     [](const Elements& e) { return e[0]->dtype.is_unsigned() ? e[0] : unary(UnaryOp::abs, e[0]); });
}

Tensor negative(const Tensor& x) {
  return elementwise("negative", {x}, accepts_number, Result::common,
                     [](const Elements& e) { return unary(UnaryOp::neg, e[0]); });
}

Tensor positive(const Tensor& x) {
  return identity("positive", x, accepts_number);
}

Tensor reciprocal(const Tensor& x) {
  return elementwise("reciprocal", {x}, accepts_float, Result::common,
                     [](const Elements& e) { return div(constant(e[0]->dtype, 1), e[0]); });
}

Tensor sign(const Tensor& x) {
  return elementwise("sign", {x}, accepts_number, Result::common, [](const Elements& e) {
    const DType dtype = e[0]->dtype;
    const Expr zero = constant(dtype, 0), one = constant(dtype, 1);
    const Expr positive = gt(e[0], zero);
    if (dtype.is_unsigned()) return select(positive, one, zero);
    const Expr ordered = select(positive, one, select(lt(e[0], zero), constant(dtype, -1), zero));
    return dtype.is_float() ? select(unary(UnaryOp::is_nan, e[0]), e[0], ordered) : ordered;
  });
}

Tensor square(const Tensor& x) {
  return elementwise("square", {x}, accepts_number, Result::common, [](const Elements& e) { return e[0] * e[0]; });
}

Tensor clip(const Tensor& x, const std::optional<Tensor>& low, const std::optional<Tensor>& high) {
  std::vector<Tensor> operands{x};
  if (low) operands.push_back(*low);
  if (high) operands.push_back(*high);
  return elementwise("clip", operands, accepts_number, Result::common,
                     [bounded_below = low.has_value(), bounded_above = high.has_value()](const Elements& e) {
                       Expr value = e[0];
                       if (bounded_below) value = max(value, e[1]);
                       return bounded_above ? min(value, e.back()) : value;
                     });
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const std::array operands{condition, a, b};
  if (!condition.dtype().is_bool()) {
    fail_type("where", fmt::format("takes a bool condition; given {}", describe(condition)));
  }
  const DType dtype = array_type("where", std::span(operands).subspan(1));
  const auto element = [=](const Indices& i) {
    return select(at_broadcast(condition, i), convert(dtype, at_broadcast(a, i)), convert(dtype, at_broadcast(b, i)));
  };
  if (is_in_body("where", operands)) return expression(element({}));
  return compute(broadcast_shapes("where", operands), element, "where");
}

Tensor astype(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype && !x.is_weak()) return x;
  if (x.is_expression()) return expression(convert(dtype, x.at({})));
  return compute(x.shape(), [=](const Indices& i) { return convert(dtype, x.at(i)); }, "astype");
}

Tensor round_result(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return compute_rounded(x.shape(), dtype, [=](const Indices& i) { return x.at(i); }, "astype");
}

}  // namespace lathe::ops
