#include <cmath>

#include "ir/intrinsics.h"
#include "ir/passes/math/coefficients.h"
#include "ir/passes/math/functions.h"

namespace lathe::math {
namespace {

/// Added to and taken from a small float, it leaves the nearest integer; before it is taken away, the low bits of the
/// sum's mantissa are that integer in two's complement, above an even multiple of 2^10.
constexpr double round_f32 = 0x1.8p23, round_f64 = 0x1.8p52;
/// The same of sixteenths, which fill the low bits.
constexpr double round_sixteenths = 0x1.8p19;
constexpr double log2_e = 0x1.715476p+0, wide_log2_e = 0x1.71547652b82fep+0;
/// ln(2) in two parts; the first has 15 bits, so that its product with an integer of 9 bits is exact.
constexpr double ln2_high = 0x1.62e4p-1, ln2_low = 0x1.7f7d1cp-20;
/// In f64 of 32 bits, for integers of 11.
constexpr double wide_ln2_high = 0x1.62e42feep-1, wide_ln2_low = 0x1.a39ef35793c76p-33;

/// 2^n as a float, n being the low bits of `image` and an exponent of normal numbers; 0 for the one below these.
Expr power_of_two(const Expr& image) {
  const bool single = image->dtype.bits == 32;
  const Expr one = constant(image->dtype, single ? std::int64_t{0x3f800000} : std::int64_t{0x3ff} << 52);
  return reinterpret(single ? f32 : f64, binary(BinaryOp::shl, image, constant(image->dtype, single ? 23 : 52)) + one);
}

/// p * 2^n for p near 1 and n in -254 .. 254 (f64: -2046 .. 2046), n being also the low bits of `shifted`: by an
/// instruction, or in two steps of which at most the second rounds, so that results run over into infinity and under
/// into denormals as they should. For the least n both factors are 0.
Expr scale(Builder& b, const Expr& p, const Expr& n, const Expr& shifted) {
  if (b.scales_by_exponent()) return scaleb(p, n);
  const Expr image = b.bind("image", bits(shifted));
  const Expr half = b.bind("half", binary(BinaryOp::shr, image, constant(image->dtype, 1)));
  return p * power_of_two(half) * power_of_two(image - half);
}

/// Comparisons with NaN being false, NaN passes.
Expr clamp_low(Builder& b, const Expr& x, double low) {
  return b.bind("above", select(lt(x, constant(x->dtype, low)), constant(x->dtype, low), x));
}
Expr clamp_high(Builder& b, const Expr& x, double high) {
  return b.bind("below", select(gt(x, constant(x->dtype, high)), constant(x->dtype, high), x));
}

/// Arguments of which 2^n is zero. Cores that call microcode for results among denormals, 50 ns a vector in which one
/// lane is, do so for results just below them too (measured on Cascade Lake: down to 2^-511 in one instruction, to
/// 2^-155 in a product; on Zen 3 for all that a product of others makes zero: exp takes 2.5 times as long). So lanes
/// below `zero` are blanked where the instruction can leave them out, and else what is below `far` is computed as that,
/// which is multiplied by zeros.
struct Vanishing {
  Builder& b;
  Expr argument;
  double zero, far;

  Expr computed() const { return b.scales_by_exponent() ? argument : clamp_low(b, argument, far); }
  Expr result(const Expr& scaled) const {
    if (!b.scales_by_exponent()) return scaled;
    return select(lt(argument, constant(argument->dtype, zero)), constant(argument->dtype, 0.0), scaled);
  }
};
Vanishing vanishing_exp(Builder& b, const Expr& x) {
  return {b, x, -104, -176};
}

/// x = n ln(2) + r, for n a multiple of what the low bits of x log2(e) + `round` count in, as `shifted` has them.
struct Reduced {
  Expr shifted, n, high, r;  ///< r is `high`, x less the first part of n ln(2), less the second one

  /// The second part, which r has been rounded with.
  Expr second() const { return constant(n->dtype, n->dtype.bits == 32 ? -ln2_low : -wide_ln2_low); }
};
Reduced reduced(Builder& b, const Expr& x, double round) {
  const DType type = x->dtype;
  const bool single = type.bits == 32;
  Reduced parts;
  const Expr log2 = constant(type, single ? log2_e : wide_log2_e);
  parts.shifted = b.bind("shifted", b.multiply_add(x, log2, constant(type, round)));
  parts.n = b.bind("n", parts.shifted - constant(type, round));
  const Expr first = constant(type, single ? -ln2_high : -wide_ln2_high);
  parts.high = b.bind("high", b.multiply_add(parts.n, first, x));
  parts.r = b.bind("r", b.multiply_add(parts.n, parts.second(), parts.high));
  return parts;
}
double round_of(DType type) {
  return type.bits == 32 ? round_f32 : round_f64;
}

/// Has the device a table of 16 powers in a register, and an instruction that scales by what an exponent is beyond
/// them? Products of sixteenths and the first part of ln(2) are exact only within a fused multiply-add.
bool looks_up_powers(const Builder& b) {
  return b.permutes(f32, 16) && b.scales_by_exponent() && b.device().fused_multiply_add;
}

/// 2^n * (1 + tail) with n a multiple of 1/16, whose low bits are those of `shifted`.
Expr scale_sixteenths(Builder& b, const Expr& tail, const Expr& n, const Expr& shifted) {
  const Expr power = b.bind("power", b.entry(coefficients::sixteenths, f32, bits(shifted)));
  return scaleb(b.multiply_add(power, tail, power), n);
}

/// e^x as exp_clamped, in f32: the shorter the interval that a polynomial is for, the fewer terms it has (P. T. P.
/// Tang, "Table-driven implementation of the exponential function in IEEE floating-point arithmetic", 1989). One
/// polynomial for all takes two multiplications and a chain of twelve cycles more (Zen 4: exponentials and their sum
/// 0.83 of the time, x * sigmoid(x) 0.86). Within 1.0 ULP, of which what the table's powers lack is 0.4; with that
/// looked up too, within 0.6 (0.94 and 0.89 of the time).
Expr exp_by_sixteenths(Builder& b, const Expr& x, bool accurate) {
  const auto [shifted, n, high, r] = reduced(b, x, round_sixteenths);
  const Expr first = accurate ? r + b.entry(coefficients::sixteenths_rest, f32, bits(shifted)) : r;
  const Expr tail = b.multiply_add(r * r, b.polynomial(coefficients::exp_sixteenth, r), first);
  return scale_sixteenths(b, tail, n, shifted);
}

/// e^x for x in -176 .. 89 (f64: -1418.5 .. 710), or NaN; for lower x with scaleb some value. `accurate` where its
/// error counts twice.
Expr exp_clamped(Builder& b, const Expr& x, bool accurate = false) {
  const DType type = x->dtype;
  const bool single = type.bits == 32;
  if (single && looks_up_powers(b)) return exp_by_sixteenths(b, x, accurate);
  const Expr one = constant(type, 1.0);
  const auto [shifted, n, high, r] = reduced(b, x, round_of(type));
  const Expr tail = single ? b.polynomial(coefficients::exp, r) : b.polynomial(coefficients::wide_exp, r);
  // Each form is the more accurate where it is used: 0.87 ULP with the instruction, 0.97 without.
  const Expr p =
      b.device().fused_multiply_add ? b.multiply_add(b.multiply_add(tail, r, one), r, one) : one + (r * r * tail + r);
  return scale(b, p, n, shifted);
}

/// q = e / (1 + e) with e = e^x, by an estimate of the reciprocal. What q then lacks is (e - q - q e) / (1 + e), whose
/// differences cancel nowhere. From 17.4 on the nearest float is 1.
Expr sigmoid_by_estimate(Builder& b, const Expr& x) {
  const Vanishing low = vanishing_exp(b, x);
  const Expr e = b.bind("e", low.result(exp_clamped(b, clamp_high(b, low.computed(), 30), true)));
  const Expr inverse = b.bind("inverse", reciprocal(constant(x->dtype, 1.0) + e));
  const Expr q = b.bind("quotient", e * inverse);
  return b.multiply_add(b.multiply_add(-q, e, e - q), inverse, q);
}

/// e^x / 2^shift as power (1 + q), q = e^r - 1, for x that overflows no more than by so many powers of two. What
/// rounding r loses counts in f64, whose other errors are as large, and is counted wherever it is to be `accurate`;
/// then `rest` is what q lacks.
struct Growth {
  Expr n, power, q, rest;
};
Growth growth_over(Builder& b, const Expr& x, int shift, bool accurate) {
  const DType type = x->dtype;
  const Reduced parts = reduced(b, x, round_of(type));
  const Expr& r = parts.r;
  const Expr image = bits(parts.shifted);
  const Expr power = b.bind("power", b.scales_by_exponent() ? scaleb(constant(type, std::ldexp(1.0, -shift)), parts.n)
                                                            : power_of_two(image - constant(image->dtype, shift)));
  const Expr tail =
      type.bits == 32 ? b.polynomial(coefficients::expm1, r) : b.polynomial_by_halves(coefficients::wide_expm1, r);
  if (!accurate) return {parts.n, power, b.bind("q", b.multiply_add(r * r, tail, r)), nullptr};
  const Expr t = b.bind("t", b.multiply_add(r * r, tail, b.multiply_add(parts.n, parts.second(), parts.high - r)));
  const Expr q = b.bind("q", r + t);
  return {parts.n, power, q, (r - q) + t};
}

/// (e^x - 1) / 2^shift, which cancels nowhere: where |x| is small n is 0. There q is the dividend, of which the
/// division costs bits where it is among denormals.
struct Quotient {
  Growth growth;
  Expr whole, value;  ///< value is power q + whole
};
Quotient expm1_over(Builder& b, const Expr& x, int shift, bool accurate) {
  const Growth growth = growth_over(b, x, shift, accurate);
  const Expr whole = b.bind("whole", growth.power - constant(x->dtype, std::ldexp(1.0, -shift)));
  return {growth, whole, b.bind("over", b.multiply_add(growth.power, growth.q, whole))};
}

/// |x|, no more than where e^|x| / 2 is infinite.
Expr size_of_half(Builder& b, const Expr& x) {
  return clamp_high(b, b.bind("magnitude", unary(UnaryOp::abs, x)), x->dtype.bits == 32 ? 89.5 : 710.5);
}

/// With m = e^(2|x|) - 1 the result is m / (m + 2). Beyond 9.1 (f64: 19.1) the nearest float is 1.
Expr tanh_by_quotient(Builder& b, const Expr& x) {
  const DType type = x->dtype;
  const bool single = type.bits == 32;
  const Expr half = clamp_high(b, b.bind("magnitude", unary(UnaryOp::abs, x)), single ? 9.1 : 19.1);
  const Expr m = expm1_over(b, b.bind("twice", half + half), 0, !single).value;
  const Expr two = constant(type, 2.0), half_one = constant(type, 0.5);
  const Expr sum = b.bind("sum", m + two);
  const Expr small = b.bind("small", lt(m, two));
  const Expr lost = b.bind("lost", select(small, m, two) - (sum - select(small, two, m)));
  if (!single && b.device().fused_multiply_add) {
    const Expr inverse = b.bind("inverse", b.inverse(sum)), y = b.bind("quotient", m * inverse);
    return with_sign_of(fma(fma(-y, lost, fma(-y, sum, m)), inverse, y), x);
  }
  const Expr y = b.bind("quotient", div(m, sum));
  // What the sum lost, to first order: 1/sum is (1 - y)/2.
  return with_sign_of(y - y * lost * b.multiply_add(-half_one, y, half_one), x);
}

}  // namespace

Expr exp_f32(Builder& b, const Expr& x, double highest) {
  constexpr double infinite = 89;
  const Vanishing low = vanishing_exp(b, x);
  const Expr above = low.computed();
  return low.result(exp_clamped(b, highest <= infinite ? above : clamp_high(b, above, infinite)));
}

Expr exp_f64(Builder& b, const Expr& x, double highest) {
  constexpr double infinite = 710;
  const Vanishing low{b, x, -746, -1418.5};
  const Expr above = low.computed();
  return low.result(exp_clamped(b, highest <= infinite ? above : clamp_high(b, above, infinite)));
}

Expr exp2_f32(Builder& b, const Expr& argument, double highest) {
  constexpr double infinite = 129;
  const DType type = argument->dtype;
  const Vanishing low{b, argument, -151, -254};
  const Expr above = low.computed();
  const Expr x = highest <= infinite ? above : clamp_high(b, above, infinite);
  const bool looks_up = looks_up_powers(b);
  const Expr round = constant(type, looks_up ? round_sixteenths : round_f32);
  const Expr shifted = b.bind("shifted", x + round);
  const Expr n = b.bind("n", shifted - round);
  const Expr r = b.bind("r", x - n);
  if (looks_up) return low.result(scale_sixteenths(b, r * b.polynomial(coefficients::exp2_sixteenth, r), n, shifted));
  const Expr p = b.multiply_add(b.polynomial(coefficients::exp2, r), r, constant(type, 1.0));
  return low.result(scale(b, p, n, shifted));
}

/// Below -17.4 (f64: -37.5) the nearest float is -1.
Expr expm1_float(Builder& b, const Expr& x, double highest) {
  const bool single = x->dtype.bits == 32;
  const double infinite = single ? 89 : 710;
  const Expr above = clamp_low(b, x, single ? -18 : -38);
  const Quotient half = expm1_over(b, highest <= infinite ? above : clamp_high(b, above, infinite), 1, !single);
  const Expr small = eq(half.growth.n, constant(x->dtype, 0.0));
  return with_sign_of(select(small, half.growth.q, half.value + half.value), x);
}

/// (m + m / (m + 1)) / 2 with m = e^|x| - 1, of which a quarter does not overflow before the result does; where |x| is
/// small m - m^2 / 2 / (m + 1), whose second term, and what its divisor's rounding loses, is little beside the first.
Expr sinh_float(Builder& b, const Expr& x) {
  const Expr one = constant(x->dtype, 1.0), four = constant(x->dtype, 4.0);
  const auto [growth, whole, value] = expm1_over(b, size_of_half(b, x), 2, true);
  const Expr small = b.bind("small", eq(growth.n, constant(x->dtype, 0.0)));
  const Expr part = b.bind("part", select(small, growth.q, value));
  const Expr sum = b.multiply_add(part, select(small, one, four), one);
  const Expr over = select(small, part * part * constant(x->dtype, -0.5), part);
  const Expr times = select(small, one, constant(x->dtype, 2.0));
  const Expr rounded = b.multiply_add(growth.power, growth.q, whole - value);
  const Expr lost = select(small, growth.rest, b.multiply_add(growth.power, growth.rest, rounded));
  return with_sign_of((part + (div(over, sum) + lost)) * times, x);
}

/// 2 E + 1 / (8 E) with E = e^|x| / 4.
Expr cosh_float(Builder& b, const Expr& x) {
  const Growth growth = growth_over(b, size_of_half(b, x), 2, x->dtype.bits != 32);
  const Expr quarter = b.bind("quarter", b.multiply_add(growth.power, growth.q, growth.power));
  return b.multiply_add(quarter, constant(x->dtype, 2.0), div(constant(x->dtype, 0.125), quarter));
}

/// Cells grow from zero on to where tanh hardly moves.
Expr tanh_f32(Builder& b, const Expr& x) {
  if (b.permutes(f32, 16)) return odd_by_cells(b, x, coefficients::tanh_cells, {1, 0.625, 21, 9.05}, 0);
  if (b.permutes_in_halves()) return odd_by_cells(b, x, coefficients::tanh_four_cells, {1.59375, 1, 23, 9.375}, 0);
  if (b.permutes(f32, 8)) return odd_by_cells(b, x, coefficients::tanh_few_cells, {0.828125, 0.5, 22, 9.05}, 0);
  return tanh_by_quotient(b, x);
}
Expr tanh_f64(Builder& b, const Expr& x) {
  return tanh_by_quotient(b, x);
}

/// e / (1 + e) left of zero and 1 / (1 + e) right of it, with e = e^-|x|, which never overflows.
Expr sigmoid_f32(Builder& b, const Expr& x) {
  if (b.estimates_reciprocals()) return sigmoid_by_estimate(b, x);
  const Expr one = constant(x->dtype, 1.0);
  const Vanishing low = vanishing_exp(b, b.bind("negative", -unary(UnaryOp::abs, x)));
  const Expr e = b.bind("e", low.result(exp_clamped(b, low.computed())));
  const Expr left = b.bind("left", lt(x, constant(x->dtype, 0.0)));
  const Expr sum = b.bind("sum", one + e);
  const Expr lost = e - (sum - one);
  const Expr y = b.bind("quotient", div(select(left, e, one), sum));
  // What the sum lost, to first order: 1/sum is y on the right and 1 - y on the left.
  return y - y * lost * select(left, one - y, y);
}

}  // namespace lathe::math
