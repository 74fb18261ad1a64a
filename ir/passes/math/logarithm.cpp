#include <limits>

#include "ir/intrinsics.h"
#include "ir/passes/math/coefficients.h"
#include "ir/passes/math/functions.h"

namespace lathe::math {

/// x = 2^e * (1 + f) with 1 + f in [2/3, 4/3): log(x) = e*ln(2) + log(1+f) never cancels to less than 0.4, or e is 0.
Expr log_f32(Builder& b, const Expr& x) {
  const DType type = x->dtype, image_type = i32.with_lanes(type.lanes);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Expr zero = constant(type, 0.0);

  const Expr tiny = b.bind("tiny", lt(x, constant(type, 0x1p-126)));
  const Expr normal = select(tiny, x * constant(type, 0x1p23), x);
  const Expr image = b.bind("image", bits(normal));
  const Expr two_thirds = constant(image_type, 0x3f2aaaab);
  const Expr e = b.bind("e", binary(BinaryOp::bit_and, image - two_thirds, pattern(image_type, 0xff800000)));
  const Expr f = b.bind("f", reinterpret(f32, image - e) - constant(type, 1.0));
  // e counts in units of 2^23; a denormal was scaled by 2^23.
  const Expr n = b.bind("n", cast(f32, e) - select(tiny, constant(type, 23 * 0x1p23), zero));

  const Expr log_f = b.multiply_add(f * f, b.polynomial(coefficients::log, f), f);
  // ln(2) * 2^-23 in two parts, the first of 15 bits: its product with n is exact.
  const Expr low = b.multiply_add(n, constant(type, 0x1.7f7d1cp-43), log_f);
  const Expr finite = b.multiply_add(n, constant(type, 0x1.62e4p-24), low);

  const Expr or_special = select(lt(x, constant(type, infinity)), finite, x);
  const Expr or_zero = select(eq(x, zero), constant(type, -infinity), or_special);
  return select(lt(x, zero), constant(type, std::numeric_limits<double>::quiet_NaN()), or_zero);
}

}  // namespace lathe::math
