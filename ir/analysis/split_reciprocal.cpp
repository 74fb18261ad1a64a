#include "ir/analysis/split_reciprocal.h"

#include <cmath>
#include <cstdint>

namespace lathe {
namespace {

using Wide = unsigned __int128;
using Digits = std::uint64_t;  ///< of a number, as an integer

/// Exponents of divisors, from -n to n, and how many digits `low` may begin behind `high`: x * low is subnormal for
/// tiny x alone then.
constexpr int most_exponent_f32 = 32, most_exponent_f64 = 256, most_gap = 16;

/// A divisor between 1 and 2 (but for its exponent), and the digits of its reciprocal.
struct Scaled {
  int digits;
  Digits divisor;    ///< 2^(digits - 1) <= divisor < 2^digits
  double high, low;  ///< sum up to 2^(2 digits - 1) / divisor, nearly
  int gap;           ///< low < 2^-gap
};

Scaled scale(Digits divisor, int digits) {
  const Wide whole = Wide{1} << (2 * digits - 1);
  const auto high = static_cast<Digits>(whole / divisor);
  const Digits rest = static_cast<Digits>(whole % divisor);
  int shift = digits;
  while ((Wide{rest} << shift) / divisor < (Digits{1} << (digits - 1))) ++shift;
  const Wide shifted = Wide{rest} << shift;
  auto low = static_cast<Digits>(shifted / divisor);
  if (2 * (shifted % divisor) >= divisor) ++low;
  return {digits, divisor, static_cast<double>(high), std::ldexp(static_cast<double>(low), -shift), shift - digits};
}

template <class Float>
bool divides(const Scaled& s, Digits x) {
  const auto a = static_cast<Float>(x), high = static_cast<Float>(s.high), low = static_cast<Float>(s.low);
  const Float quotient = std::fma(a, high, a * low);
  return std::ldexp(quotient, 1 - 2 * s.digits) == a / static_cast<Float>(s.divisor);
}

bool divides(const Scaled& s, Digits x) {
  return s.digits == 24 ? divides<float>(s, x) : divides<double>(s, x);
}

/// a * 2^-n modulo an odd number.
Digits halved(Digits a, int n, Digits odd) {
  for (; n > 0; --n) a = a % 2 == 0 ? a / 2 : a / 2 + odd / 2 + 1;
  return a;
}

/// Do they divide every x so that x 2^up = m divisor + distance, the only ones whose quotient may be as near to the
/// middle m between two numbers?
bool divides_near_middles(const Scaled& s, int up, Digits distance) {
  int zeros = 0;
  while (((s.divisor >> zeros) & 1) == 0) ++zeros;
  if (distance % (Digits{1} << zeros) != 0) return true;
  const Digits odd = s.divisor >> zeros, end = Digits{1} << s.digits;
  const Digits above = halved((distance >> zeros) % odd, up - zeros, odd);
  for (const Digits first : {above, odd - above}) {
    for (Digits x = first; x < end; x += odd) {
      if (x >= end / 2 && !divides(s, x)) return false;
    }
  }
  return true;
}

/// The products are off by less than 3 x 2^-(2 digits + gap) relative to their sum: `low` and x * low are rounded, each
/// by half a unit in their last place at most. The quotient x / divisor lies apart from the middle m / 2^up between two
/// numbers by distance / (divisor 2^up), distance a whole number; it is rounded to the right side of those that are off
/// by less than that.
bool divides_all(const Scaled& s) {
  const Wide divisor = s.divisor;
  const int up = s.digits;
  // Quotients from 1 on, of x < 2^digits, and those below, of x < divisor.
  const auto above = static_cast<Digits>((3 * divisor) >> (s.digits + s.gap)),
             below = static_cast<Digits>((6 * divisor * divisor) >> (2 * s.digits + s.gap));
  for (Digits distance = 1; distance <= above; ++distance) {
    if (!divides_near_middles(s, up, distance)) return false;
  }
  for (Digits distance = 1; distance <= below; ++distance) {
    if (!divides_near_middles(s, up + 1, distance)) return false;
  }
  return true;
}

}  // namespace

std::optional<SplitReciprocal> split_reciprocal(double divisor, int digits) {
  int exponent;
  const double fraction = std::frexp(std::fabs(divisor), &exponent);
  const int most = digits == 24 ? most_exponent_f32 : most_exponent_f64;
  if (!std::isfinite(divisor) || fraction <= 0.5 || std::abs(exponent) > most) return std::nullopt;
  const Scaled scaled = scale(static_cast<Digits>(std::ldexp(fraction, digits)), digits);
  if (scaled.gap > most_gap || !divides_all(scaled)) return std::nullopt;
  const int back = 1 - digits - exponent;
  return SplitReciprocal{std::copysign(std::ldexp(scaled.high, back), divisor),
                         std::copysign(std::ldexp(scaled.low, back), divisor)};
}

}  // namespace lathe
