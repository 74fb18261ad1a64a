#include <utility>

#include "ir/intrinsics.h"
#include "ir/passes/math/coefficients.h"
#include "ir/passes/math/functions.h"
#include "ir/passes/math/vector_library.h"

namespace lathe::math {
namespace {

/// Up to here the reduction below is exact enough; larger arguments go to SLEEF's function, behind a branch.
constexpr double largest_reduced = 1e5;
constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
/// pi/2 in three parts of 24 bits each, all rounded down.
constexpr double half_pi[] = {0x1.921fb4p+0, 0x1.4442d0p-24, 0x1.846988p-48};

struct Reduced {
  Expr r;         ///< x - n * pi/2, within pi/4 of zero, an f32
  Expr quadrant;  ///< n as i32, its low bits right
};

/// The multiple of pi/2 nearest to x.
struct Multiple {
  Expr n;         ///< a float
  Expr quadrant;  ///< as in Reduced
};
Multiple nearest_multiple(Builder& b, const Expr& x) {
  const Expr round = constant(x->dtype, 0x1.8p23);
  const Expr shifted = b.bind("shifted", fma(x, constant(x->dtype, two_over_pi), round));
  return {b.bind("n", shifted - round), bits(shifted)};
}

/// Cody and Waite, with parts that leave -0 as it is. The first fma is exact.
Reduced reduce_fused(Builder& b, const Expr& x) {
  const auto [n, quadrant] = nearest_multiple(b, x);
  Expr r = x;
  for (const double part : half_pi) r = fma(n, constant(x->dtype, -part), r);
  return {b.bind("r", r), quadrant};
}

/// .. to the nearest float: what the second fma rounds away is added with the third part. -0 becomes 0.
Reduced reduce_closely(Builder& b, const Expr& x) {
  const auto part = [&](double value) { return constant(x->dtype, -value); };
  const auto [n, quadrant] = nearest_multiple(b, x);
  const Expr first = b.bind("first", fma(n, part(half_pi[0]), x));
  const Expr high = b.bind("high", fma(n, part(half_pi[1]), first));
  const Expr product = b.bind("product", first - high), rounded = (first - product) - high;
  const Expr lost = fma(n, part(half_pi[1]), product) + rounded;
  return {b.bind("r", high + fma(n, part(half_pi[2]), lost)), quadrant};
}

/// The same in f64 with two parts, the first of 33 bits, for machines without fma.
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
  const Expr large = b.bind("large", gt(unary(UnaryOp::abs, x), constant(x->dtype, largest_reduced)));
  return b.unless(large, b.bind("usual", usual), library_call(b, library_name, {x}));
}

/// sin(x + quarter turns * pi/2).
Expr sin_shifted(Builder& b, const Expr& x, int quarter_turns, const char* library_name) {
  const DType type = x->dtype;
  auto [r, n] = reduce(b, x);
  const Expr quadrant = b.bind("quadrant", quarter_turns ? n + constant(n->dtype, quarter_turns) : n);
  const Expr square = b.bind("square", r * r);
  const Expr sine = b.multiply_add(square * r, b.polynomial(coefficients::sin, square), r);
  const Expr head = b.multiply_add(square, constant(type, -0.5), constant(type, 1.0));
  const Expr cosine = b.multiply_add(square * square, b.polynomial(coefficients::cos, square), head);
  const Expr second_bit = binary(BinaryOp::bit_and, quadrant, constant(n->dtype, 2));
  const Expr flip = binary(BinaryOp::shl, second_bit, constant(n->dtype, 30));
  const Expr turned = select(is_odd(quadrant), cosine, sine);
  return or_large(b, x, reinterpret(f32, binary(BinaryOp::bit_xor, bits(turned), flip)), library_name);
}

}  // namespace

/// The sum of r and its correction would turn -0 into +0.
Expr sin_f32(Builder& b, const Expr& x) {
  return select(eq(x, constant(x->dtype, 0.0)), x, sin_shifted(b, x, 0, "sin"));
}
Expr cos_f32(Builder& b, const Expr& x) {
  return sin_shifted(b, x, 1, "cos");
}

/// r + r^3*P(r^2), or minus its inverse a quarter turn further, of which what the sum has lost is half a unit.
Expr tan_f32(Builder& b, const Expr& x) {
  const auto [r, quadrant] = reduce_closely(b, x);
  const Expr square = b.bind("square", r * r);
  const Expr rest = b.bind("rest", square * r * b.polynomial(coefficients::tan, square));
  const Expr tangent = b.bind("tangent", r + rest), lost = (r - tangent) + rest;
  const Expr y = or_large(b, x, select(is_odd(quadrant), -b.inverse(tangent, lost), tangent), "tan");
  return select(eq(x, constant(x->dtype, 0.0)), x, y);
}

/// t + t^3*P(t^2) for t up to 1, beyond it pi/2 + atan(-1/t). From 2^26 on the nearest float is pi/2.
Expr atan_f32(Builder& b, const Expr& x) {
  const DType type = x->dtype;
  const Expr most = constant(type, 0x1p40), magnitude = b.bind("magnitude", unary(UnaryOp::abs, x));
  const Expr finite = b.bind("finite", select(gt(magnitude, most), most, magnitude));
  const Expr large = b.bind("large", gt(finite, constant(type, 1.0)));
  const Expr t = b.bind("t", select(large, -b.inverse(finite), finite));
  const Expr square = b.bind("square", t * t);
  const Expr y = b.bind("y", b.multiply_add(square * t, b.polynomial(coefficients::atan, square), t));
  return with_sign_of(select(large, y + constant(type, 0x1.921fb6p+0), y), x);
}

}  // namespace lathe::math
