#pragma once
#include <optional>

namespace lathe {

/// 1 / divisor as a sum of two numbers of the divisor's sign, by which a fused multiply-add divides:
///
///   x / divisor   ->   fma(x, high, x * low)
struct SplitReciprocal {
  double high, low;
};

/// The two where they give the correctly rounded quotient of every x of so many digits (24: f32, 53: f64) for which
/// neither x * low nor the quotient is subnormal, and of zeros, infinities and NaN; below, it is off by one unit in the
/// last place at most. Nothing where they do not, for powers of two, and for divisors far from 1.
///
/// Sources: N. Brisebarre, J.-M. Muller, S. K. Raina, "Accelerating correctly rounded floating-point division when the
/// divisor is known in advance", IEEE Transactions on Computers 53(8), 2004. Unlike there `high` is rounded toward
/// zero, so that both have one sign, and infinities and zeros need no care.
std::optional<SplitReciprocal> split_reciprocal(double divisor, int digits);

}  // namespace lathe
