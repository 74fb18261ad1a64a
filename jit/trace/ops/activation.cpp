#include "jit/trace/ops/activation.h"

#include <numbers>

#include "jit/trace/ops/elementwise.h"

namespace lathe::ops {
namespace {

using Elements = std::vector<Expr>;

Tensor activation(std::string_view name, const Tensor& x, Expr (*f)(const Expr&)) {
  return elementwise(name, {x}, accepts_float, Result::common, [f](const Elements& e) { return f(e[0]); });
}

Expr real(const Expr& like, double value) {
  return constant(like->dtype, value);
}

}  // namespace

Tensor relu(const Tensor& x) {
  return elementwise("relu", {x}, accepts_number, Result::common,
                     [](const Elements& e) { return max(e[0], constant(e[0]->dtype, 0)); });
}

Tensor gelu(const Tensor& x) {
  return activation("gelu", x, [](const Expr& v) {
    return real(v, 0.5) * v * (real(v, 1) + unary(UnaryOp::erf, v * real(v, 1 / std::numbers::sqrt2)));
  });
}

Tensor gelu_tanh(const Tensor& x) {
  return activation("gelu_tanh", x, [](const Expr& v) {
    // (1 + tanh(u)) / 2 is sigmoid(2u), which does not cancel where x is far below 0.
    const Expr inner = v + real(v, 0.044715) * v * v * v;
    const double scale = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    return v * unary(UnaryOp::sigmoid, real(v, scale) * inner);
  });
}

Tensor silu(const Tensor& x) {
  return activation("silu", x, [](const Expr& v) { return v * unary(UnaryOp::sigmoid, v); });
}

Tensor softplus(const Tensor& x) {
  return activation("softplus", x, [](const Expr& v) {
    return max(v, real(v, 0)) + unary(UnaryOp::log1p, unary(UnaryOp::exp, -unary(UnaryOp::abs, v)));
  });
}

}  // namespace lathe::ops
