#include <functional>
#include <limits>

#include "ir/intrinsics.h"
#include "ir/passes/math/functions.h"
#include "ir/passes/math/vector_library.h"

namespace lathe::math {
namespace {

/// 2^(field - 1023) for f64's exponent fields.
Expr power_of_two(const Expr& field) {
  return reinterpret(f64.with_lanes(field->dtype.lanes), binary(BinaryOp::shl, field, constant(field->dtype, 52)));
}

/// What is left of a positive dividend when `turn` has taken multiples of the divisor from it, as long as it is no
/// less; not a number where the dividend is not finite, or the divisor zero.
Expr long_division(Builder& b, const Expr& dividend, const Expr& divisor,
                   const std::function<Expr(const Expr& left)>& turn) {
  const DType type = dividend->dtype;
  const Expr infinity = constant(type, std::numeric_limits<double>::infinity());
  const Expr valid = b.bind("valid", logical_and(lt(dividend, infinity), gt(divisor, constant(type, 0.0))));
  const Expr left = b.loop({dividend}, [&](const std::vector<Expr>& state) {
    const Expr runs = logical_and(valid, ge(state[0], divisor));
    return Builder::Iteration{runs, {select(runs, turn(state[0]), state[0])}};
  })[0];
  return select(valid, left, constant(type, std::numeric_limits<double>::quiet_NaN()));
}

/// The upper bits of a positive f64, so many: a whole number times a power of two that is no less than 1.
struct Upper {
  Expr whole, power;
};
Upper upper_bits(const Expr& x, std::int64_t count) {
  constexpr std::int64_t bias = 1023;
  const Expr exponent = binary(BinaryOp::shr, bits(x), constant(bits(x)->dtype, 52));
  const Expr above = max(exponent - constant(exponent->dtype, count - 1), constant(exponent->dtype, bias));
  const Expr below = constant(exponent->dtype, 2 * bias) - above;
  return {unary(UnaryOp::trunc, x * power_of_two(below)), power_of_two(above)};
}

/// x - trunc(x/y)*y, exact, for f32: long division in f64, of whose quotient each turn takes the upper bits. With 24
/// bits in either operand, a quotient below 2^28 rounds to no other integer, and its product with y is exact. What is
/// left of x is a multiple of a float that x or y counts in, and below y times the power: exact too.
Expr remainder_f32(Builder& b, const Expr& x, const Expr& y) {
  const DType wide = f64.with_lanes(x->dtype.lanes);
  const Expr dividend = b.bind("dividend", cast(wide, unary(UnaryOp::abs, x))),
             divisor = b.bind("divisor", cast(wide, unary(UnaryOp::abs, y)));
  const Expr magnitude = long_division(b, dividend, divisor, [&](const Expr& left) {
    const auto [whole, power] = upper_bits(div(left, divisor), 28);
    return left - whole * (divisor * power);
  });
  return b.bind("remainder", copysign_bits(cast(x->dtype, magnitude), x));
}

/// The same for f64: each turn takes the upper bits of a quotient by y times a power of two. Its product with those is
/// exact within fma, whose sum with what is left of x is so too: both count in what the multiple of y counts in, and
/// the sum is below it either way, for a quotient that was rounded may be one too large.
Expr remainder_f64(Builder& b, const Expr& x, const Expr& y) {
  const DType type = x->dtype;
  const Expr far = constant(type, 0x1p700);  // quotients reach 2^2098, floats 2^1024
  const Expr dividend = b.bind("dividend", unary(UnaryOp::abs, x)), divisor = b.bind("divisor", unary(UnaryOp::abs, y));
  const Expr magnitude = long_division(b, dividend, divisor, [&](const Expr& left) {
    Expr multiple = divisor;
    for (int i = 0; i < 2; ++i) {
      const Expr farther = multiple * far;
      multiple = select(ge(left, farther), farther, multiple);
    }
    const auto [whole, power] = upper_bits(div(left, multiple), 52);
    const Expr by = multiple * power, rest = fma(-whole, by, left);
    return select(lt(rest, constant(type, 0.0)), rest + by, rest);
  });
  return b.bind("remainder", copysign_bits(magnitude, x));
}

/// x - trunc(x/y)*y, exact. SLEEF's function gives up where the quotient is huge: far below that, one lane at a time
/// takes over.
Expr remainder(Builder& b, const Expr& x, const Expr& y) {
  if (x->dtype.bits == 32 && b.binds()) return remainder_f32(b, x, y);
  if (x->dtype.bits == 64 && b.binds() && b.device().fused_multiply_add) return remainder_f64(b, x, y);
  const Expr reach = constant(x->dtype, x->dtype.bits == 32 ? 0x1p60 : 0x1p300);
  const Expr usual = b.bind("remainder", library_call(b, "fmod", {x, y}));
  // reach * y is at worst infinite, and then nothing is far.
  const Expr far = b.bind("far", ge(unary(UnaryOp::abs, x), unary(UnaryOp::abs, y) * reach));
  // 0 by 1 is done at once: a vector takes as long as those of its lanes that are far.
  const Expr taken = cast(f64, select(far, x, constant(x->dtype, 0.0))),
             by = cast(f64, select(far, y, constant(x->dtype, 1.0)));
  return b.unless(far, usual, cast(x->dtype, exact_remainder(taken, by)));
}

struct Division {
  Expr remainder, adjusted, zero;
};

/// The remainder toward zero, and whether it must move by y to have y's sign.
Division divide(Builder& b, const Expr& x, const Expr& y) {
  const Expr zero = constant(x->dtype, 0.0);
  const Expr r = b.bind("toward_zero", remainder(b, x, y));
  const Expr is_zero = b.bind("is_zero", eq(r, zero));
  const Expr differs = ne(lt(y, zero), lt(r, zero));
  const Expr ordered = eq(r, r);
  return {r, b.bind("adjusted", logical_and(logical_and(differs, ordered), logical_not(is_zero))), is_zero};
}

}  // namespace

Expr floor_mod_float(Builder& b, const Expr& x, const Expr& y) {
  const Division d = divide(b, x, y);
  const Expr moved = select(d.adjusted, d.remainder + y, d.remainder);
  return select(d.zero, copysign_bits(d.remainder, y), moved);
}

/// The integer nearest to (x - remainder) / y; x / y where y is zero.
Expr floor_div_float(Builder& b, const Expr& x, const Expr& y) {
  const DType type = x->dtype;
  const Expr zero = constant(type, 0.0), one = constant(type, 1.0);
  const Division d = divide(b, x, y);
  const Expr quotient = b.bind("quotient", div(x, y));
  const Expr toward_zero = b.bind("toward_zero", div(x - d.remainder, y));
  const Expr near = b.bind("near", select(d.adjusted, toward_zero - one, toward_zero));
  const Expr whole = b.bind("whole", unary(UnaryOp::floor, near));
  const Expr rounded = select(gt(near - whole, constant(type, 0.5)), whole + one, whole);
  const Expr or_zero = select(eq(near, zero), copysign_bits(zero, quotient), rounded);
  return select(eq(y, zero), quotient, or_zero);
}

Expr copysign_bits(const Expr& magnitude, const Expr& sign) {
  const Expr image = bits(magnitude);
  const std::uint64_t sign_bit = std::uint64_t{1} << (image->dtype.bits - 1);
  const Expr cleared = binary(BinaryOp::bit_and, image, pattern(image->dtype, sign_bit - 1));
  const Expr taken = binary(BinaryOp::bit_and, bits(sign), pattern(image->dtype, sign_bit));
  return reinterpret(magnitude->dtype, binary(BinaryOp::bit_or, cleared, taken));
}

/// Floats of one sign are ordered as their bits are, so a neighbour is one away.
Expr nextafter_bits(Builder& b, const Expr& x, const Expr& y) {
  const DType type = x->dtype;
  const Expr zero = constant(type, 0.0);
  const Expr image = b.bind("image", bits(x));
  const DType image_type = image->dtype;
  const Expr away = eq(lt(x, y), gt(x, zero));
  const Expr step = select(away, constant(image_type, 1), constant(image_type, -1));
  const Expr neighbour = reinterpret(type, image + step);
  const Expr least = reinterpret(type, constant(image_type, 1));
  const Expr from_zero = select(eq(x, zero), copysign_bits(least, y), neighbour);
  const Expr moved = select(eq(x, y), y, from_zero);
  const Expr ordered = logical_and(eq(x, x), eq(y, y));
  return select(ordered, moved, constant(type, std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace lathe::math
