#include <limits>

#include "ir/intrinsics.h"
#include "ir/passes/math/coefficients.h"
#include "ir/passes/math/functions.h"

namespace lathe::math {
namespace {

/// x = 2^n * (1 + f) with 1 + f in [3/4, 3/2), so that the logarithm never cancels to less than 0.4 of its terms, or n
/// is 0.
struct Parts {
  Expr n;       ///< in units of `unit`
  double unit;  ///< a power of two
  Expr f;
};

/// Two instructions that know zero, infinity, denormals and negative numbers: n and f then make these's logarithms.
Parts split_by_instructions(Builder& b, const Expr& x) {
  const Expr m = b.bind("m", mantissa(x));
  return {b.bind("n", exponent(x) - exponent(m)), 1, b.bind("f", m - constant(x->dtype, 1.0))};
}

/// A denormal is scaled by 2^23 first.
Parts split_by_bits(Builder& b, const Expr& x) {
  const DType type = x->dtype, image_type = i32.with_lanes(type.lanes);
  const Expr tiny = b.bind("tiny", lt(x, constant(type, 0x1p-126)));
  const Expr normal = select(tiny, x * constant(type, 0x1p23), x);
  const Expr image = b.bind("image", bits(normal));
  const Expr three_quarters = constant(image_type, 0x3f400000);
  const Expr e = b.bind("e", binary(BinaryOp::bit_and, image - three_quarters, pattern(image_type, 0xff800000)));
  const Expr f = b.bind("f", reinterpret(f32, image - e) - constant(type, 1.0));
  return {b.bind("n", cast(f32, e) - select(tiny, constant(type, 23 * 0x1p23), constant(type, 0.0))), 0x1p-23, f};
}

Expr special_cases(const Expr& x, const Expr& finite) {
  const auto number = [&](double value) { return constant(x->dtype, value); };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Expr or_special = select(lt(x, number(infinity)), finite, x);
  const Expr or_zero = select(eq(x, number(0)), number(-infinity), or_special);
  return select(lt(x, number(0)), number(std::numeric_limits<double>::quiet_NaN()), or_zero);
}

/// `combine` makes the logarithm of the parts.
template <class Combine>
Expr by_parts(Builder& b, const Expr& x, const Combine& combine) {
  if (b.splits_floats()) return combine(split_by_instructions(b, x));
  return special_cases(x, combine(split_by_bits(b, x)));
}

}  // namespace

Expr log_f32(Builder& b, const Expr& x) {
  return by_parts(b, x, [&](const Parts& parts) {
    const auto& [n, unit, f] = parts;
    const Expr log_f = b.multiply_add(f * f, b.polynomial(coefficients::log, f), f);
    // ln(2) in two parts, the first of 15 bits: its product with n is exact.
    const Expr low = b.multiply_add(n, constant(x->dtype, unit * 0x1.7f7d1cp-20), log_f);
    return b.multiply_add(n, constant(x->dtype, unit * 0x1.62e4p-1), low);
  });
}

/// The nearest float to log2(e), and a polynomial for the rest. A power of two has f = 0, and its exponent is exact.
Expr log2_f32(Builder& b, const Expr& x) {
  return by_parts(b, x, [&](const Parts& parts) {
    const auto& [n, unit, f] = parts;
    const Expr whole = unit == 1 ? n : n * constant(x->dtype, unit);
    const Expr high = b.multiply_add(f, constant(x->dtype, 0x1.715476p+0), whole);
    return b.multiply_add(f, b.polynomial(coefficients::log2, f), high);
  });
}

/// The same of log10(e); log10(2) in two parts, as above.
Expr log10_f32(Builder& b, const Expr& x) {
  return by_parts(b, x, [&](const Parts& parts) {
    const auto& [n, unit, f] = parts;
    const Expr high = b.multiply_add(f, constant(x->dtype, 0x1.bcb7b2p-2), n * constant(x->dtype, unit * 0x1.344p-2));
    const Expr rest = f * b.polynomial(coefficients::log10, f);
    return high + b.multiply_add(n, constant(x->dtype, unit * 0x1.3509f8p-18), rest);
  });
}

}  // namespace lathe::math
