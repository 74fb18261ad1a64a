#include "jit/trace/ops/comparison.h"

#include "jit/trace/ops/elementwise.h"

namespace lathe::ops {
namespace {

using Elements = std::vector<Expr>;

Tensor compare(std::string_view name, BinaryOp op, unsigned accepts, const Tensor& a, const Tensor& b) {
  return elementwise(name, {a, b}, accepts, Result::boolean,
                     [op](const Elements& e) { return binary(op, e[0], e[1]); });
}

Tensor classify(std::string_view name, UnaryOp op, bool of_integers, const Tensor& x) {
  return elementwise(name, {x}, accepts_number, Result::boolean, [=](const Elements& e) {
    return e[0]->dtype.is_float() ? unary(op, e[0]) : constant(boolean, of_integers);
  });
}

}  // namespace

Tensor equal(const Tensor& a, const Tensor& b) {
  return compare("equal", BinaryOp::eq, accepts_any, a, b);
}
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compare("not_equal", BinaryOp::ne, accepts_any, a, b);
}
Tensor less(const Tensor& a, const Tensor& b) {
  return compare("less", BinaryOp::lt, accepts_number, a, b);
}
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compare("less_equal", BinaryOp::le, accepts_number, a, b);
}
Tensor greater(const Tensor& a, const Tensor& b) {
  return compare("greater", BinaryOp::gt, accepts_number, a, b);
}
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return compare("greater_equal", BinaryOp::ge, accepts_number, a, b);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return compare("logical_and", BinaryOp::logical_and, accepts_bool, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return compare("logical_or", BinaryOp::logical_or, accepts_bool, a, b);
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return compare("logical_xor", BinaryOp::ne, accepts_bool, a, b);
}
Tensor logical_not(const Tensor& x) {
  return elementwise("logical_not", {x}, accepts_bool, Result::boolean,
                     [](const Elements& e) { return unary(UnaryOp::logical_not, e[0]); });
}

Tensor isnan(const Tensor& x) {
  return classify("isnan", UnaryOp::is_nan, false, x);
}
Tensor isinf(const Tensor& x) {
  return classify("isinf", UnaryOp::is_inf, false, x);
}
Tensor isfinite(const Tensor& x) {
  return classify("isfinite", UnaryOp::is_finite, true, x);
}
Tensor signbit(const Tensor& x) {
  return elementwise("signbit", {x}, accepts_float, Result::boolean,
                     [](const Elements& e) { return unary(UnaryOp::signbit, e[0]); });
}

}  // namespace lathe::ops
