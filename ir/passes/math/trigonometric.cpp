#include <limits>
#include <utility>

#include "ir/intrinsics.h"
#include "ir/passes/math/coefficients.h"
#include "ir/passes/math/functions.h"
#include "ir/passes/math/vector_library.h"

namespace lathe::math {
namespace {

/// Up to here the reduction below is exact enough; larger arguments go to SLEEF's function, behind a branch.
constexpr double largest_reduced = 1e5, wide_largest_reduced = 1e9;
constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
/// pi/2 in three parts of 24 bits each, of 53 in f64, all rounded down.
constexpr double half_pi[] = {0x1.921fb4p+0, 0x1.4442d0p-24, 0x1.846988p-48};
constexpr double wide_half_pi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c06p-54, 0x1.c1cd129024e08p-107};

bool is_single(const Expr& x) {
  return x->dtype.bits == 32;
}
Expr pick(const Expr& like, double of_f32, double of_f64) {
  return constant(like->dtype, is_single(like) ? of_f32 : of_f64);
}
/// Minus a part of pi/2.
Expr minus_part(const Expr& like, int i) {
  return pick(like, -half_pi[i], -wide_half_pi[i]);
}

struct Reduced {
  Expr r;         ///< x - n * pi/2, within pi/4 of zero, of x's type
  Expr quadrant;  ///< n as an integer of x's width, its low bits right
};

/// The multiple of pi/2 nearest to x.
struct Multiple {
  Expr n;         ///< a float
  Expr quadrant;  ///< as in Reduced
};
Multiple nearest_multiple(Builder& b, const Expr& x) {
  const Expr round = pick(x, 0x1.8p23, 0x1.8p52);
  const Expr shifted = b.bind("shifted", fma(x, constant(x->dtype, two_over_pi), round));
  return {b.bind("n", shifted - round), bits(shifted)};
}

/// Cody and Waite, with parts that leave -0 as it is. The first fma is exact.
Reduced reduce_fused(Builder& b, const Expr& x) {
  const auto [n, quadrant] = nearest_multiple(b, x);
  Expr r = x;
  for (int i = 0; i < 3; ++i) r = fma(n, minus_part(x, i), r);
  return {b.bind("r", r), quadrant};
}

/// .. to the nearest float: what the second fma rounds away is added with the third part. -0 becomes 0.
Reduced reduce_closely(Builder& b, const Expr& x) {
  const auto [n, quadrant] = nearest_multiple(b, x);
  const Expr first = b.bind("first", fma(n, minus_part(x, 0), x));
  const Expr high = b.bind("high", fma(n, minus_part(x, 1), first));
  const Expr product = b.bind("product", first - high), rounded = (first - product) - high;
  const Expr lost = fma(n, minus_part(x, 1), product) + rounded;
  return {b.bind("r", high + fma(n, minus_part(x, 2), lost)), quadrant};
}

/// The same of an f32 in f64 with two parts, the first of 33 bits, for machines without fma.
Reduced reduce_wide(Builder& b, const Expr& x) {
  const DType type = f64.with_lanes(x->dtype.lanes);
  const Expr round = constant(type, 0x1.8p52);
  const Expr wide = b.bind("wide", cast(f64, x));
  const Expr shifted = b.bind("shifted", wide * constant(type, two_over_pi) + round);
  const Expr n = b.bind("n", shifted - round);
  const Expr r = wide - n * constant(type, 0x1.921fb544p+0) - n * constant(type, 0x1.0b4611a626331p-34);
  return {b.bind("r", cast(f32, r)), cast(i32, bits(shifted))};
}

Reduced reduce(Builder& b, const Expr& x) {
  return b.device().fused_multiply_add ? reduce_fused(b, x) : reduce_wide(b, x);
}
Expr is_odd(const Expr& n) {
  const Expr one = constant(n->dtype, 1);
  return eq(binary(BinaryOp::bit_and, n, one), one);
}
/// `usual` but where the reduction is not exact enough.
Expr or_large(Builder& b, const Expr& x, const Expr& usual, const char* library_name) {
  const Expr large = b.bind("large", gt(unary(UnaryOp::abs, x), pick(x, largest_reduced, wide_largest_reduced)));
  return b.unless(large, b.bind("usual", usual), library_call(b, library_name, {x}));
}

/// sin(x + quarter turns * pi/2).
Expr sin_shifted(Builder& b, const Expr& x, int quarter_turns, const char* library_name) {
  const DType type = x->dtype;
  auto [r, n] = reduce(b, x);
  const Expr quadrant = b.bind("quadrant", quarter_turns ? n + constant(n->dtype, quarter_turns) : n);
  const Expr square = b.bind("square", r * r);
  const bool single = is_single(x);
  const Expr sine_tail =
      single ? b.polynomial(coefficients::sin, square) : b.polynomial(coefficients::wide_sin, square);
  const Expr sine = b.multiply_add(square * r, sine_tail, r);
  const Expr head = b.multiply_add(square, constant(type, -0.5), constant(type, 1.0));
  const Expr cosine_tail =
      single ? b.polynomial(coefficients::cos, square) : b.polynomial(coefficients::wide_cos, square);
  const Expr cosine = b.multiply_add(square * square, cosine_tail, head);
  const Expr second_bit = binary(BinaryOp::bit_and, quadrant, constant(n->dtype, 2));
  const Expr flip = binary(BinaryOp::shl, second_bit, constant(n->dtype, single ? 30 : 62));
  const Expr turned = select(is_odd(quadrant), cosine, sine);
  return or_large(b, x, reinterpret(type.element(), binary(BinaryOp::bit_xor, bits(turned), flip)), library_name);
}

/// asin(s) = s + rest for s up to 1/2, which is |x|, or the root of (1 - |x|) / 2: asin(x) is then pi/2 - 2 asin(s).
struct ArcSine {
  Expr large, s, rest;
};
ArcSine arc_sine(Builder& b, const Expr& x) {
  const DType type = x->dtype;
  const Expr half = constant(type, 0.5), magnitude = b.bind("magnitude", unary(UnaryOp::abs, x));
  const Expr large = b.bind("large", gt(magnitude, half));
  const Expr complement = (constant(type, 1.0) - magnitude) * half;
  const Expr square = b.bind("square", select(large, complement, magnitude * magnitude));
  const Expr s = b.bind("s", select(large, unary(UnaryOp::sqrt, square), magnitude));
  const Expr tail =
      is_single(x) ? b.polynomial(coefficients::asin, square) : b.polynomial_by_halves(coefficients::wide_asin, square);
  return {large, s, b.bind("rest", square * s * tail)};
}
/// pi/2 as the nearest float, and what that lacks.
Expr nearest_half_pi(const Expr& like) {
  return pick(like, 0x1.921fb6p+0, 0x1.921fb54442d18p+0);
}
Expr half_pi_lacks(const Expr& like) {
  return pick(like, -0x1.777a5cp-25, 0x1.1a62633145c07p-54);
}

}  // namespace

/// The sum of r and its correction would turn -0 into +0.
Expr sin_float(Builder& b, const Expr& x) {
  return select(eq(x, constant(x->dtype, 0.0)), x, sin_shifted(b, x, 0, "sin"));
}
Expr cos_float(Builder& b, const Expr& x) {
  return sin_shifted(b, x, 1, "cos");
}

/// r + r^3*P(r^2), or minus its inverse a quarter turn further, of which what the sum has lost is half a unit.
Expr tan_float(Builder& b, const Expr& x) {
  const auto [r, quadrant] = reduce_closely(b, x);
  const Expr square = b.bind("square", r * r);
  const Expr tail =
      is_single(x) ? b.polynomial(coefficients::tan, square) : b.polynomial_by_halves(coefficients::wide_tan, square);
  const Expr rest = b.bind("rest", square * r * tail);
  const Expr tangent = b.bind("tangent", r + rest), lost = (r - tangent) + rest;
  const Expr y = or_large(b, x, select(is_odd(quadrant), -b.inverse(tangent, lost), tangent), "tan");
  return select(eq(x, constant(x->dtype, 0.0)), x, y);
}

/// t + t^3*P(t^2) for t up to 1, beyond it pi/2 + atan(-1/t). From 2^26 on (f64: 2^54) the nearest float is pi/2.
Expr atan_float(Builder& b, const Expr& x) {
  const DType type = x->dtype;
  const Expr most = pick(x, 0x1p40, 0x1p80), magnitude = b.bind("magnitude", unary(UnaryOp::abs, x));
  const Expr finite = b.bind("finite", select(gt(magnitude, most), most, magnitude));
  const Expr large = b.bind("large", gt(finite, constant(type, 1.0)));
  const Expr t = b.bind("t", select(large, -b.inverse(finite), finite));
  const Expr square = b.bind("square", t * t);
  const Expr cube = square * t;
  if (is_single(x)) {
    const Expr y = b.bind("y", b.multiply_add(cube, b.polynomial(coefficients::atan, square), t));
    return with_sign_of(select(large, y + nearest_half_pi(x), y), x);
  }
  const Expr lacks = select(large, half_pi_lacks(x), constant(type, 0.0));
  const Expr y = b.bind("y", t + fma(cube, b.polynomial_by_halves(coefficients::wide_atan, square), lacks));
  return with_sign_of(select(large, y + nearest_half_pi(x), y), x);
}

/// The angle of the point (x, y): of the first eighth turn atan's polynomial of t, the lesser by the greater of |x| and
/// |y|; from there on added to, or taken from, as many quarter turns as the point lies away.
Expr atan2_float(Builder& b, const Expr& y, const Expr& x) {
  const DType type = x->dtype;
  const Expr zero = constant(type, 0.0), one = constant(type, 1.0);
  const Expr up = b.bind("up", unary(UnaryOp::abs, y)), along = b.bind("along", unary(UnaryOp::abs, x));
  const Expr steep = b.bind("steep", gt(up, along)), back = b.bind("back", unary(UnaryOp::signbit, x));
  const Expr greater = b.bind("greater", select(steep, up, along)), lesser = b.bind("lesser", select(steep, along, up));
  // Of two infinities 1, of two zeros 0; of what is not a number, nothing is equal or greater.
  const Expr infinity = constant(type, std::numeric_limits<double>::infinity());
  const Expr infinite = logical_and(eq(lesser, infinity), eq(greater, infinity));
  const Expr ratio = select(infinite, one, div(lesser, select(eq(greater, zero), one, greater)));
  const Expr t = b.bind("t", select(ne(steep, back), -ratio, ratio));
  const Expr quarters = b.bind("quarters", select(steep, one, select(back, constant(type, 2.0), zero)));
  const Expr square = b.bind("square", t * t);
  const Expr tail =
      is_single(x) ? b.polynomial(coefficients::atan, square) : b.polynomial_by_halves(coefficients::wide_atan, square);
  const Expr angle = t + fma(square * t, tail, quarters * half_pi_lacks(x));
  return with_sign_of(fma(quarters, nearest_half_pi(x), angle), y);
}

/// Beyond 1/2 the large terms are taken from each other first, and what rounding left of them is added at last.
Expr asin_float(Builder& b, const Expr& x) {
  const auto [large, s, rest] = arc_sine(b, x);
  const Expr twice = b.bind("twice", s + s), quarter = nearest_half_pi(x);
  const Expr difference = b.bind("difference", quarter - twice), lost = (quarter - difference) - twice;
  const Expr turned = difference + (fma(constant(x->dtype, -2.0), rest, half_pi_lacks(x)) + lost);
  return with_sign_of(select(large, turned, s + rest), x);
}

/// pi/2 - asin(x); beyond 1/2 that is 2 asin(s), and beyond -1/2 pi less it.
Expr acos_float(Builder& b, const Expr& x) {
  const auto [large, s, rest] = arc_sine(b, x);
  const DType type = x->dtype;
  const Expr zero = constant(type, 0.0), two = constant(type, 2.0);
  const Expr negative = b.bind("negative", lt(x, zero));
  const Expr turns = b.bind("turns", select(large, select(negative, two, zero), constant(type, 1.0)));
  const Expr factor = b.bind("factor", select(large, two, constant(type, -1.0)));
  const Expr times = b.bind("times", select(negative, -factor, factor));
  return fma(times, s, turns * nearest_half_pi(x)) + fma(times, rest, turns * half_pi_lacks(x));
}

}  // namespace lathe::math
