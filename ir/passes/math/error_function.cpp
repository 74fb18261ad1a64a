#include "ir/intrinsics.h"
#include "ir/passes/math/coefficients.h"
#include "ir/passes/math/functions.h"

namespace lathe::math {
/// x + x*P(x^2) where |x| is small. Beyond, 1 - h(|x|)^8 with h a polynomial near erfc^(1/8): the eighth root of erfc
/// is so nearly straight that a low degree serves, and no exponential is needed. From 4 on the nearest float is 1.
Expr erf_f32(Builder& b, const Expr& x) {
  const DType type = x->dtype;
  if (b.permutes(f32, 16)) return odd_by_cells(b, x, coefficients::erf_cells, {1, 1.5, 20, 3.9375}, 1);
  if (b.permutes_in_halves()) return odd_by_cells(b, x, coefficients::erf_four_cells, {0.3125, 1.25, 21, 3.984375}, 1);
  if (b.permutes(f32, 8)) return odd_by_cells(b, x, coefficients::erf_few_cells, {0.46875, 0.625, 21, 3.9375}, 1);
  const Expr split = constant(type, 1.1875), four = constant(type, 4.0);
  const Expr magnitude = b.bind("magnitude", unary(UnaryOp::abs, x));
  const Expr square = b.bind("square", x * x);
  const Expr small = b.multiply_add(b.polynomial(coefficients::erf_small, square), x, x);

  const Expr s = b.bind("s", select(gt(magnitude, four), four, magnitude) - constant(type, 2.0));
  const Expr root = b.bind("root", b.polynomial(coefficients::erf_large, s));
  const Expr root2 = b.bind("root2", root * root);
  const Expr root4 = b.bind("root4", root2 * root2);
  const Expr large = b.multiply_add(-root4, root4, constant(type, 1.0));
  return select(lt(magnitude, split), small, with_sign_of(large, x));
}

/// From 5.93 on the nearest float is 1.
Expr erf_f64(Builder& b, const Expr& x) {
  return odd_by_cells(b, x, coefficients::wide_erf_cells, {1, 6, 48, 5.9375}, 1);
}

}  // namespace lathe::math
