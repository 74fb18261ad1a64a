#include "jit/trace/ops/bitwise.h"

#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/elementwise.h"

namespace lathe::ops {
namespace {

using Elements = std::vector<Expr>;

/// On bools the bit operation is the logical one.
Tensor bits(std::string_view name, BinaryOp op, BinaryOp on_bools, const Tensor& a, const Tensor& b) {
  return elementwise(name, {a, b}, accepts_integer_or_bool, Result::common,
                     [=](const Elements& e) { return binary(e[0]->dtype.is_bool() ? on_bools : op, e[0], e[1]); });
}

Tensor shift(std::string_view name, BinaryOp op, const Tensor& a, const Tensor& b) {
  return elementwise(name, {a, b}, accepts_integer, Result::common,
                     [op](const Elements& e) { return binary(op, e[0], e[1]); });
}

}  // namespace

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return bits("bitwise_and", BinaryOp::bit_and, BinaryOp::logical_and, a, b);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return bits("bitwise_or", BinaryOp::bit_or, BinaryOp::logical_or, a, b);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return bits("bitwise_xor", BinaryOp::bit_xor, BinaryOp::ne, a, b);
}
Tensor bitwise_invert(const Tensor& x) {
  return elementwise("bitwise_invert", {x}, accepts_integer_or_bool, Result::common, [](const Elements& e) {
    return unary(e[0]->dtype.is_bool() ? UnaryOp::logical_not : UnaryOp::bit_not, e[0]);
  });
}
Tensor bitwise_count(const Tensor& x) {
  const Tensor counts = elementwise("bitwise_count", {x}, accepts_integer, Result::common, [](const Elements& e) {
    const Expr magnitude = e[0]->dtype.is_signed() ? unary(UnaryOp::abs, e[0]) : e[0];
    return Call::make(e[0]->dtype, CallKind::intrinsic, "population_count", {magnitude});
  });
  return astype(counts, u8);
}
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  return shift("bitwise_left_shift", BinaryOp::shl, a, b);
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  return shift("bitwise_right_shift", BinaryOp::shr, a, b);
}

}  // namespace lathe::ops
