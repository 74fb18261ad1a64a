#include <array>
#include <cmath>
#include <limits>

#include "ir/intrinsics.h"
#include "ir/passes/math/coefficients.h"
#include "ir/passes/math/functions.h"

namespace lathe::math {
namespace {

constexpr std::uint64_t one_f64 = 0x3ff0000000000000;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Beyond, log and exp take no longer than products.
constexpr double most_squared = 64;

/// log2 of a = |x|, an f64 that was an f32: x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). Relative error 2^-38.
Expr log2_of_single(Builder& b, const Expr& a) {
  const DType type = a->dtype, image_type = u64.with_lanes(type.lanes);
  const Expr image = b.bind("image", reinterpret(u64, a));
  // e + 1023 in the bits of the exponent: the carry rounds the significand up from sqrt(2).
  const Expr shifted = b.bind("shifted", image + pattern(image_type, one_f64 - 0x3fe6a09e667f3bcd));
  const Expr exponent = binary(BinaryOp::bit_and, shifted, pattern(image_type, 0xfff0000000000000));
  const Expr f = b.bind("f", reinterpret(f64, image - exponent + pattern(image_type, one_f64)) - constant(type, 1.0));
  // An integer below 2^52 under the exponent of 2^52 is that integer plus 2^52.
  const Expr counted = binary(BinaryOp::bit_or, binary(BinaryOp::shr, shifted, constant(image_type, 52)),
                              pattern(image_type, 0x4330000000000000));
  const Expr e = reinterpret(f64, counted) - constant(type, 0x1p52 + 1023);
  const Expr log = b.bind("log", b.multiply_add(b.polynomial(coefficients::pow_log2, f), f, e));
  const Expr or_zero = select(eq(a, constant(type, 0.0)), constant(type, -infinity), log);
  return select(lt(a, constant(type, infinity)), or_zero, a);
}

/// 2^z as an f32, z an f64; NaN passes.
Expr exp2_f64(Builder& b, const Expr& argument) {
  const DType type = argument->dtype, image_type = u64.with_lanes(type.lanes);
  const Expr limit = constant(type, 200.0), round = constant(type, 0x1.8p52);
  const Expr above = b.bind("above", select(lt(argument, -limit), -limit, argument));
  const Expr z = b.bind("z", select(gt(above, limit), limit, above));
  const Expr shifted = b.bind("shifted", z + round);
  const Expr r = b.bind("r", z - (shifted - round));
  const Expr power =
      binary(BinaryOp::shl, reinterpret(u64, shifted), constant(image_type, 52)) + pattern(image_type, one_f64);
  return cast(f32, b.polynomial(coefficients::pow_exp2, r) * reinterpret(f64, power));
}

/// One step of repeated squaring on {result, square, exponent}.
std::array<Expr, 3> square_and_multiply(const std::array<Expr, 3>& s) {
  const DType type = s[2]->dtype;
  const Expr odd = ne(binary(BinaryOp::bit_and, s[2], constant(type, 1)), constant(type, 0));
  return {select(odd, s[0] * s[1], s[0]), s[1] * s[1], binary(BinaryOp::shr, s[2], constant(type, 1))};
}

}  // namespace

bool is_constant_power(DType type, double exponent) {
  if (std::abs(exponent) == 0.5 || (-1 <= exponent && exponent <= 3 && exponent == std::trunc(exponent))) return true;
  if (type.bits <= 32) return std::abs(exponent) <= most_squared && exponent == std::trunc(exponent);
  return exponent == -2 || exponent == 4;
}

/// In f32 what takes several products is f64 in between, so that it rounds once: an f64 overflows and vanishes beyond
/// where an f32 does.
Expr pow_constant(Builder& b, const Expr& x, double exponent) {
  const DType type = x->dtype;
  Expr one = constant(type, 1.0);
  if (exponent == 0) return one;
  if (std::abs(exponent) == 0.5) {
    // Of -0 the root is -0 and the power 0; of minus infinity it is NaN and the power infinity.
    const Expr root = unary(UnaryOp::sqrt, x) + constant(type, 0.0);
    const Expr power = select(eq(x, constant(type, -infinity)), constant(type, infinity), root);
    return exponent > 0 ? power : div(one, power);
  }
  const auto products = static_cast<std::int64_t>(std::abs(exponent));
  if (products <= 1) return exponent < 0 ? div(one, x) : x;
  if (exponent == 3) return x * x * x;
  if (type.bits == 32 && exponent != 2) {
    const Expr wide = pow_by_squaring(b, b.bind("wide", cast(f64, x)), products);
    return cast(f32, exponent < 0 ? div(constant(wide->dtype, 1.0), wide) : wide);
  }
  return pow_by_squaring(b, exponent < 0 ? b.bind("reciprocal", div(one, x)) : x, products);
}

/// 2^(y * log2|x|) in f64, which rounds once at the end; then the cases of C's pow (Annex F.10.4.4).
Expr pow_f32(Builder& b, const Expr& x, const Expr& y) {
  const DType type = x->dtype, wide = f64.with_lanes(type.lanes);
  const Expr zero = constant(type, 0.0), one = constant(type, 1.0);
  constexpr double largest = std::numeric_limits<float>::max();

  const Expr log = log2_of_single(b, b.bind("magnitude", cast(f64, unary(UnaryOp::abs, x))));
  // An infinite exponent acts as the largest finite one, but that 0 * infinity does not arise for |x| = 1.
  const Expr wide_y = b.bind("wide", cast(f64, y));
  const Expr above = b.bind("above", select(lt(wide_y, constant(wide, -largest)), constant(wide, -largest), wide_y));
  const Expr exponent = select(gt(above, constant(wide, largest)), constant(wide, largest), above);
  const Expr magnitude = exp2_f64(b, b.bind("product", exponent * log));

  const Expr half = b.bind("half", y * constant(type, 0.5));
  const Expr whole = b.bind("whole", eq(unary(UnaryOp::floor, y), y));
  const Expr odd = logical_and(whole, ne(unary(UnaryOp::floor, half), half));
  const Expr image = bits(x);
  const Expr sign = binary(BinaryOp::bit_and, image, pattern(image->dtype, 0x80000000));
  const Expr flip = select(odd, sign, constant(image->dtype, 0));
  const Expr power = reinterpret(f32, binary(BinaryOp::bit_xor, bits(magnitude), flip));

  const Expr negative = logical_and(lt(x, zero), gt(x, constant(type, -infinity)));
  const Expr not_a_number = constant(type, std::numeric_limits<double>::quiet_NaN());
  const Expr or_invalid = select(logical_and(negative, logical_not(whole)), not_a_number, power);
  return select(logical_or(eq(x, one), eq(y, zero)), one, or_invalid);
}

Expr pow_by_squaring(Builder& b, const Expr& x, std::int64_t exponent) {
  Expr power, square = x;
  for (std::int64_t left = exponent; left > 0; left /= 2) {
    if (left % 2 != 0) power = power ? b.bind("power", power * square) : square;
    if (left > 1) square = b.bind("square", square * square);
  }
  return power ? power : constant(x->dtype, 1);
}

Expr pow_integer(Builder& b, const Expr& x, const Expr& y) {
  const DType type = x->dtype;
  const DType count_type = DType{TypeCode::unsigned_integer, type.bits, type.lanes};
  const Expr one = constant(type, 1), zero = constant(type, 0);
  std::array<Expr, 3> state = {one, x, reinterpret(count_type, y)};
  Expr power;
  if (b.binds()) {
    power = b.loop({state.begin(), state.end()}, [](const std::vector<Expr>& s) {
      const std::array<Expr, 3> next = square_and_multiply({s[0], s[1], s[2]});
      return Builder::Iteration{ne(s[2], constant(s[2]->dtype, 0)), {next.begin(), next.end()}};
    })[0];
  } else {
    for (int i = 0; i < type.bits; ++i) state = square_and_multiply(state);
    power = state[0];
  }
  if (!type.is_signed()) return power;
  const Expr odd = ne(binary(BinaryOp::bit_and, y, one), zero);
  const Expr of_minus_one = select(odd, x, one);
  const Expr truncated = select(eq(x, one), one, select(eq(x, constant(type, -1)), of_minus_one, zero));
  return select(lt(y, zero), truncated, power);
}

/// Zeros have the root of a sum that is too small for anything else, too.
Expr hypot_float(Builder& b, const Expr& x, const Expr& y) {
  const auto number = [&](double of_f32, double of_f64) {
    return constant(x->dtype, x->dtype.bits == 32 ? of_f32 : of_f64);
  };
  const Expr zero = number(0, 0), sum = b.bind("sum", b.multiply_add(x, x, y * y));
  const Expr within = logical_and(ge(sum, number(0x1p-100, 0x1p-960)), le(sum, number(0x1p126, 0x1p1022)));
  const Expr nothing = logical_and(eq(x, zero), eq(y, zero));
  const Expr rare = b.bind("rare", logical_not(logical_or(within, nothing)));
  return b.unless(rare, b.bind("usual", unary(UnaryOp::sqrt, sum)), library_binary(b, BinaryOp::hypot, x, y));
}

}  // namespace lathe::math
