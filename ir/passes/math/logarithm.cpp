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
  Expr e = nullptr;  ///< the bits that n adds to those of a float's exponent; null where instructions split
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
  return {b.bind("n", cast(f32, e) - select(tiny, constant(type, 23 * 0x1p23), constant(type, 0.0))), 0x1p-23, f, e};
}

/// The same of f64, whose exponents are made floats by bits alone: few machines convert 64-bit integers.
Parts split_wide_by_bits(Builder& b, const Expr& x) {
  const DType type = x->dtype, image_type = i64.with_lanes(type.lanes), bare = u64.with_lanes(type.lanes);
  const auto number = [&](double value) { return constant(type, value); };
  const Expr tiny = b.bind("tiny", lt(x, number(0x1p-1022)));
  const Expr image = b.bind("image", bits(select(tiny, x * number(0x1p54), x)));
  const Expr three_quarters = pattern(image_type, 0x3fe8000000000000);
  const Expr e =
      b.bind("e", binary(BinaryOp::bit_and, image - three_quarters, pattern(image_type, 0xfff0000000000000)));
  // n + 1024, which is positive, as the low bits of 2^52 + n + 1024.
  const Expr lifted = reinterpret(u64, e + pattern(image_type, 0x4000000000000000));
  const Expr place = binary(BinaryOp::shr, lifted, constant(bare, 52));
  const Expr shifted = reinterpret(f64, binary(BinaryOp::bit_or, place, pattern(bare, 0x4330000000000000)));
  const Expr n = shifted - select(tiny, number(0x1p52 + 1024 + 54), number(0x1p52 + 1024));
  return {b.bind("n", n), 1, b.bind("f", reinterpret(f64, image - e) - number(1.0)), e};
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
  return special_cases(x, combine(x->dtype.bits == 32 ? split_by_bits(b, x) : split_wide_by_bits(b, x)));
}

/// Of the parts of 1 + x rounded those of 1 + x: what x has beyond 2^n - 1 is exact (Sterbenz), and f is that by 2^-n.
/// Beyond `ordinary`, where 1 counts for nothing, f stays: so it does of infinity, zero and what is not a number.
Parts with_rest(Builder& b, const Expr& x, const Parts& parts) {
  const DType type = x->dtype;
  const Expr one = constant(type, 1.0), ordinary = constant(type, 100 / parts.unit);
  Expr power, inverse;
  if (parts.e) {
    const Expr image_of_one = bits(one);
    power = reinterpret(type.element(), image_of_one + parts.e);
    inverse = reinterpret(type.element(), image_of_one - parts.e);
  } else {
    power = scaleb(one, parts.n), inverse = scaleb(one, -parts.n);
  }
  const Expr exact = (x - (power - one)) * inverse;
  return {parts.n, parts.unit, b.bind("f", select(lt(unary(UnaryOp::abs, parts.n), ordinary), exact, parts.f))};
}

/// The logarithm of 1 + x by `log_of_parts`; tiny numbers, of either sign, are their own.
template <class Combine>
Expr log_of_one_more(Builder& b, const Expr& x, const Combine& log_of_parts) {
  const Expr more = b.bind("more", constant(x->dtype, 1.0) + x);
  const Expr result = by_parts(b, more, [&](const Parts& parts) { return log_of_parts(with_rest(b, x, parts)); });
  return select(eq(x, constant(x->dtype, 0.0)), x, result);
}

/// log(1+f) of f64 as `high` + `low`, of which the first is f - f^2/2 rounded. With s = f / (2 + f) it is
/// f - (f^2/2 - s * (f^2/2 + s^2 * P(s^2))) (fdlibm, e_log.c).
struct WideLog {
  Expr high, low;
};
WideLog wide_log(Builder& b, const Expr& of) {
  const Expr zero = constant(of->dtype, 0.0);
  const Expr f = b.bind("f", select(lt(of, constant(of->dtype, -0.5)), zero, of));  // the mantissa of -0 is -1
  const Expr s = b.bind("s", div(f, f + constant(f->dtype, 2.0)));
  const Expr square = b.bind("square", s * s);
  const Expr half_square = b.bind("half_square", constant(f->dtype, 0.5) * f * f);
  const Expr sum = b.multiply_add(square, b.polynomial_by_halves(coefficients::wide_log, square), half_square);
  const Expr high = b.bind("high", f - half_square);
  return {high, b.bind("low", b.multiply_add(s, sum, (f - high) - half_square))};
}

/// n * log(2) + log(1+f) for another base: of both factors the nearest float and what that lacks; the first of the base
/// itself leaves the product with n exact.
struct WideBase {
  double two, two_lacks, e, e_lacks;
};
Expr wide_log_of_base(Builder& b, const Expr& x, const WideBase& base) {
  const auto number = [&](double value) { return constant(x->dtype, value); };
  return by_parts(b, x, [&](const Parts& parts) {
    const auto [high, low] = wide_log(b, parts.f);
    const Expr product = b.bind("product", high * number(base.e));
    const Expr lost = fma(high, number(base.e), -product);
    const Expr rest = fma(high, number(base.e_lacks), fma(low, number(base.e), lost));
    const Expr behind = base.two_lacks == 0 ? rest : fma(parts.n, number(base.two_lacks), rest);
    return fma(parts.n, number(base.two), product + behind);
  });
}

Expr narrow_log_of(Builder& b, const Parts& parts) {
  const Expr &n = parts.n, &f = parts.f;
  const Expr log_f = b.multiply_add(f * f, b.polynomial(coefficients::log, f), f);
  // ln(2) in two parts, the first of 15 bits: its product with n is exact.
  const Expr low = b.multiply_add(n, constant(f->dtype, parts.unit * 0x1.7f7d1cp-20), log_f);
  return b.multiply_add(n, constant(f->dtype, parts.unit * 0x1.62e4p-1), low);
}

Expr wide_log_of(Builder& b, const Parts& parts) {
  const auto [high, low] = wide_log(b, parts.f);
  // ln(2) in two parts, the first of 32 bits.
  const Expr rest = b.multiply_add(parts.n, constant(high->dtype, 0x1.a39ef35793c76p-33), low);
  return b.multiply_add(parts.n, constant(high->dtype, 0x1.62e42feep-1), high + rest);
}

}  // namespace

Expr log_f32(Builder& b, const Expr& x) {
  return by_parts(b, x, [&](const Parts& parts) { return narrow_log_of(b, parts); });
}
Expr log1p_f32(Builder& b, const Expr& x) {
  return log_of_one_more(b, x, [&](const Parts& parts) { return narrow_log_of(b, parts); });
}

/// The nearest float to log2(e), and a polynomial for the rest. A power of two has f = 0, and its exponent is exact.
Expr log2_f32(Builder& b, const Expr& x) {
  return by_parts(b, x, [&](const Parts& parts) {
    const auto& [n, unit, f, e] = parts;
    const Expr whole = unit == 1 ? n : n * constant(x->dtype, unit);
    const Expr high = b.multiply_add(f, constant(x->dtype, 0x1.715476p+0), whole);
    return b.multiply_add(f, b.polynomial(coefficients::log2, f), high);
  });
}

/// The same of log10(e); log10(2) in two parts, as above.
Expr log10_f32(Builder& b, const Expr& x) {
  return by_parts(b, x, [&](const Parts& parts) {
    const auto& [n, unit, f, e] = parts;
    const Expr high = b.multiply_add(f, constant(x->dtype, 0x1.bcb7b2p-2), n * constant(x->dtype, unit * 0x1.344p-2));
    const Expr rest = f * b.polynomial(coefficients::log10, f);
    return high + b.multiply_add(n, constant(x->dtype, unit * 0x1.3509f8p-18), rest);
  });
}

Expr log_f64(Builder& b, const Expr& x) {
  return by_parts(b, x, [&](const Parts& parts) { return wide_log_of(b, parts); });
}
Expr log1p_f64(Builder& b, const Expr& x) {
  return log_of_one_more(b, x, [&](const Parts& parts) { return wide_log_of(b, parts); });
}
Expr log2_f64(Builder& b, const Expr& x) {
  return wide_log_of_base(b, x, {1, 0, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56});
}
Expr log10_f64(Builder& b, const Expr& x) {
  return wide_log_of_base(b, x,
                          {0x1.34413509f6p-2, 0x1.9fef311f12b36p-42, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57});
}

}  // namespace lathe::math
