#pragma once
#include <optional>
#include "ir/analysis/interval.h"

#include "ir/passes/math/builder.h"

namespace lathe::math {

/// The number in every lane of a constant float.
std::optional<double> constant_value(const Expr& e);

/// What replaces `op` of arguments that are lowered already, or null where the machine has an instruction for it. `a`
/// is known to be no more than `highest`, or not a number.
Expr lower_unary(Builder& b, UnaryOp op, const Expr& a, double highest);
Expr lower_binary(Builder& b, BinaryOp op, const Expr& x, const Expr& y);

/// Our own vector functions in f32, any lane count, at most 2 ULP on every input, denormals and special values
/// included, with and without a fused multiply-add. Arguments are bound already; those of powers are known to be no
/// more than `highest`, or not a number. Measured errors: docs/math.md.
Expr exp_f32(Builder& b, const Expr& x, double highest);
Expr exp2_f32(Builder& b, const Expr& x, double highest);
Expr log_f32(Builder& b, const Expr& x);
Expr log1p_f32(Builder& b, const Expr& x);
Expr log2_f32(Builder& b, const Expr& x);  ///< with a fused multiply-add, as log10
Expr log10_f32(Builder& b, const Expr& x);
Expr tanh_f32(Builder& b, const Expr& x);
Expr sigmoid_f32(Builder& b, const Expr& x);
Expr erf_f32(Builder& b, const Expr& x);
Expr pow_f32(Builder& b, const Expr& x, const Expr& y);

/// f64, at most 2 ULP as well.
Expr exp_f64(Builder& b, const Expr& x, double highest);
Expr erf_f64(Builder& b, const Expr& x);  ///< where the device permutes f64
Expr tanh_f64(Builder& b, const Expr& x);
Expr log_f64(Builder& b, const Expr& x);
Expr log1p_f64(Builder& b, const Expr& x);
Expr log2_f64(Builder& b, const Expr& x);  ///< with a fused multiply-add, as log10
Expr log10_f64(Builder& b, const Expr& x);

/// f32 and f64, at most 2 ULP.
Expr expm1_float(Builder& b, const Expr& x, double highest);
Expr sinh_float(Builder& b, const Expr& x);
Expr cosh_float(Builder& b, const Expr& x);

/// f32, and with a fused multiply-add f64; those but sin and cos of f32 want it too. At most 2 ULP.
Expr sin_float(Builder& b, const Expr& x);
Expr cos_float(Builder& b, const Expr& x);
Expr tan_float(Builder& b, const Expr& x);
Expr asin_float(Builder& b, const Expr& x);
Expr acos_float(Builder& b, const Expr& x);
Expr atan_float(Builder& b, const Expr& x);
Expr atan2_float(Builder& b, const Expr& y, const Expr& x);
/// The root of the sum of squares, and SLEEF's where those leave the normal range.
Expr hypot_float(Builder& b, const Expr& x, const Expr& y);

/// Powers by a constant that products, a quotient or a root give within 2 ULP in f32 and 4 in f64, and in every special
/// case.
bool is_constant_power(DType type, double exponent);
Expr pow_constant(Builder& b, const Expr& x, double exponent);
/// The power by an exponent of at least 0, which integers give modulo the width.
Expr pow_by_squaring(Builder& b, const Expr& x, std::int64_t exponent);

/// Modulo the width; a negative exponent truncates the true power: 1 and -1 keep theirs, the rest gives 0.
Expr pow_integer(Builder& b, const Expr& x, const Expr& y);

/// f32 and f64, as NumPy has them: the remainder is exact but for the one addition that gives it y's sign.
Expr floor_mod_float(Builder& b, const Expr& x, const Expr& y);
Expr floor_div_float(Builder& b, const Expr& x, const Expr& y);

/// Integers of up to 32 bits by a constant, where x is known to lie in an interval from 0 on: a product and a shift
/// where they fit the type, else a division of numbers without a sign. Null where neither gains.
Expr divide_bounded(Builder& b, BinaryOp op, const Expr& x, const Expr& y, const Interval& interval);

/// Any float type, by its bits.
Expr copysign_bits(const Expr& magnitude, const Expr& sign);
Expr nextafter_bits(Builder& b, const Expr& x, const Expr& y);

/// f32 and f64 through SLEEF, within 4 ULP on the whole domain.
Expr library_unary(Builder& b, UnaryOp op, const Expr& x);
Expr library_binary(Builder& b, BinaryOp op, const Expr& x, const Expr& y);

}  // namespace lathe::math
