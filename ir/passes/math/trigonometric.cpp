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

struct Reduced {
  Expr r;         ///< x - n * pi/2, within pi/4 of zero, an f32
  Expr quadrant;  ///< n as i32, its low bits right
};

/// Cody and Waite: pi/2 in three parts of 24 bits each, all rounded down so that -0 stays -0. The first fma is exact.
Reduced reduce_fused(Builder& b, const Expr& x) {
  const DType type = x->dtype;
  const Expr round = constant(type, 0x1.8p23);
  const Expr shifted = b.bind("shifted", fma(x, constant(type, two_over_pi), round));
  const Expr n = b.bind("n", shifted - round);
  Expr r = x;
  for (const double part : {0x1.921fb4p+0, 0x1.4442d0p-24, 0x1.846988p-48}) r = fma(n, constant(type, -part), r);
  return {b.bind("r", r), bits(shifted)};
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

/// sin(x + quarter turns * pi/2).
Expr sin_shifted(Builder& b, const Expr& x, int quarter_turns, const char* library_name) {
  const DType type = x->dtype;
  auto [r, n] = b.device().fused_multiply_add ? reduce_fused(b, x) : reduce_wide(b, x);
  const Expr one = constant(n->dtype, 1), two = constant(n->dtype, 2);
  const Expr quadrant = b.bind("quadrant", quarter_turns ? n + constant(n->dtype, quarter_turns) : n);
  const Expr square = b.bind("square", r * r);
  const Expr sine = b.multiply_add(square * r, b.polynomial(coefficients::sin, square), r);
  const Expr head = b.multiply_add(square, constant(type, -0.5), constant(type, 1.0));
  const Expr cosine = b.multiply_add(square * square, b.polynomial(coefficients::cos, square), head);
  const Expr odd = eq(binary(BinaryOp::bit_and, quadrant, one), one);
  const Expr flip = binary(BinaryOp::shl, binary(BinaryOp::bit_and, quadrant, two), constant(n->dtype, 30));
  const Expr y = reinterpret(f32, binary(BinaryOp::bit_xor, bits(select(odd, cosine, sine)), flip));
  const Expr large = b.bind("large", gt(unary(UnaryOp::abs, x), constant(type, largest_reduced)));
  return b.unless(large, b.bind("usual", y), library_call(b, library_name, {x}));
}

}  // namespace

/// The sum of r and its correction would turn -0 into +0.
Expr sin_f32(Builder& b, const Expr& x) {
  return select(eq(x, constant(x->dtype, 0.0)), x, sin_shifted(b, x, 0, "sin"));
}
Expr cos_f32(Builder& b, const Expr& x) {
  return sin_shifted(b, x, 1, "cos");
}

}  // namespace lathe::math
