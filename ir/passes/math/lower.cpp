#include "ir/passes/math/functions.h"

namespace lathe::math {
namespace {

bool is_half(DType dtype) { return dtype.is_float() && dtype.bits == 16; }
bool is_f32(DType dtype) { return dtype.element() == f32; }

Expr own_f32(Builder& b, UnaryOp op, const Expr& x) {
  switch (op) {
    case UnaryOp::exp: return exp_f32(b, x);
    case UnaryOp::exp2: return exp2_f32(b, x);
    case UnaryOp::log: return log_f32(b, x);
    case UnaryOp::tanh: return tanh_f32(b, x);
    case UnaryOp::sigmoid: return sigmoid_f32(b, x);
    case UnaryOp::erf: return erf_f32(b, x);
    default: return nullptr;
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
    case UnaryOp::signbit: return true;
    default: return false;
  }
}

}  // namespace

Expr lower_unary(Builder& b, UnaryOp op, const Expr& a) {
  if (is_native(op)) return nullptr;
  if (is_half(a->dtype)) return cast(a->dtype, lower_unary(b, op, cast(f32, a)));
  const Expr x = b.bind("argument", a);
  if (is_f32(x->dtype)) {
    if (Expr own = own_f32(b, op, x)) return b.bind("value", std::move(own));
  }
  return nullptr;
}

Expr lower_binary(Builder& b, BinaryOp op, const Expr& x, const Expr& y) {
  return nullptr;
}

}  // namespace lathe::math
