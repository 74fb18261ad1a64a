#include "jit/trace/ops/transcendental.h"

#include <array>
#include <numbers>

#include "jit/trace/ops/elementwise.h"

namespace lathe::ops {
namespace {

using Elements = std::vector<Expr>;

Tensor float_function(std::string_view name, UnaryOp op, const Tensor& x) {
  return elementwise(name, {x}, accepts_float, Result::common, [op](const Elements& e) { return unary(op, e[0]); });
}

Tensor rounding(std::string_view name, UnaryOp op, const Tensor& x) {
  if (!result_type(name, std::array{x}, accepts_number).is_float()) return x;
  return float_function(name, op, x);
}

}  // namespace

#define LATHE_DEFINE(name, op)                    \
  Tensor name(const Tensor& x) {                  \
    return float_function(#name, UnaryOp::op, x); \
  }
LATHE_FLOAT_FUNCTIONS(LATHE_DEFINE)
#undef LATHE_DEFINE

Tensor atan2(const Tensor& y, const Tensor& x) {
  return elementwise("atan2", {y, x}, accepts_float, Result::common,
                     [](const Elements& e) { return binary(BinaryOp::atan2, e[0], e[1]); });
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  return elementwise("logaddexp", {a, b}, accepts_float, Result::common, [](const Elements& e) {
    const Expr distance = unary(UnaryOp::abs, e[0] - e[1]);
    const Expr stable = max(e[0], e[1]) + unary(UnaryOp::log1p, unary(UnaryOp::exp, -distance));
    // Equal infinities have no distance.
    return select(eq(e[0], e[1]), e[0] + constant(e[0]->dtype, std::numbers::ln2), stable);
  });
}

Tensor floor(const Tensor& x) {
  return rounding("floor", UnaryOp::floor, x);
}
Tensor ceil(const Tensor& x) {
  return rounding("ceil", UnaryOp::ceil, x);
}
Tensor trunc(const Tensor& x) {
  return rounding("trunc", UnaryOp::trunc, x);
}
Tensor round(const Tensor& x) {
  return rounding("round", UnaryOp::round, x);
}

}  // namespace lathe::ops
