#include "ir/analysis/interval.h"

#include <algorithm>
#include <numeric>

namespace lathe {
namespace {

using Wide = __int128;
constexpr std::int64_t limit = std::int64_t{1} << 62;

std::optional<std::int64_t> clamp(Wide value) {
  if (value > limit || value < -limit) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::int64_t modulo(Wide value, std::int64_t by) {
  // 128-bit division is slow, and hardly ever needed.
  auto narrow = static_cast<std::int64_t>(value);
  if (narrow == value) {
    narrow %= by;
    return narrow < 0 ? narrow + by : narrow;
  }
  Wide r = value % by;
  return static_cast<std::int64_t>(r < 0 ? r + by : r);
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  std::int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Sets value = remainder mod multiple_of and pulls the ends onto such values.
Interval aligned(Interval i, Wide multiple_of, Wide remainder) {
  if (multiple_of == 1) {
    i.multiple_of = 1;
    i.remainder = 0;
    const auto value = i.as_point();
    return value ? Interval::point(*value) : i;
  }
  if (multiple_of < 0) multiple_of = -multiple_of;
  if (multiple_of > limit) multiple_of = 1;
  if (multiple_of == 0) {
    auto value = clamp(remainder);
    return value ? Interval::point(*value) : i;
  }
  i.multiple_of = static_cast<std::int64_t>(multiple_of);
  i.remainder = modulo(remainder, i.multiple_of);
  if (i.multiple_of > 1) {
    if (i.min) i.min = clamp(Wide(*i.min) + modulo(Wide(i.remainder) - *i.min, i.multiple_of));
    if (i.max) i.max = clamp(Wide(*i.max) - modulo(Wide(*i.max) - i.remainder, i.multiple_of));
  }
  const auto value = i.as_point();
  return value ? Interval::point(*value) : i;
}

std::int64_t greatest_divisor(std::int64_t a, std::int64_t b) {
  return a == 1 || b == 1 ? 1 : std::gcd(a, b);
}

}  // namespace

Interval Interval::between(std::int64_t min, std::int64_t max) {
  if (min == max) return point(min);
  return {clamp(min), clamp(max), 1, 0};
}

Interval Interval::of(DType dtype) {
  if (dtype.is_bool()) return between(0, 1);
  if (!dtype.is_integer() || dtype.bits == 64) return everything();
  return between(integer_min(dtype), integer_max(dtype));
}

bool Interval::contains(std::int64_t value) const {
  if ((min && value < *min) || (max && value > *max)) return false;
  return multiple_of == 0 ? value == remainder : modulo(Wide(value) - remainder, multiple_of) == 0;
}

Interval operator+(const Interval& a, const Interval& b) {
  Interval r;
  if (a.min && b.min) r.min = clamp(Wide(*a.min) + *b.min);
  if (a.max && b.max) r.max = clamp(Wide(*a.max) + *b.max);
  return aligned(r, greatest_divisor(a.multiple_of, b.multiple_of), Wide(a.remainder) + b.remainder);
}

Interval operator-(const Interval& a, const Interval& b) {
  return a + b * Interval::point(-1);
}

Interval operator*(const Interval& a, const Interval& b) {
  const auto point = a.as_point();
  if (b.as_point() && !point) return b * a;
  Interval r;
  if (point) {
    const std::int64_t k = *point;
    if (k == 0) return Interval::point(0);
    const auto& low = k > 0 ? b.min : b.max;
    const auto& high = k > 0 ? b.max : b.min;
    if (low) r.min = clamp(Wide(*low) * k);
    if (high) r.max = clamp(Wide(*high) * k);
    return aligned(r, Wide(b.multiple_of) * k, Wide(b.remainder) * k);
  }
  if (a.min && a.max && b.min && b.max) {
    Wide ends[] = {Wide(*a.min) * *b.min, Wide(*a.min) * *b.max, Wide(*a.max) * *b.min, Wide(*a.max) * *b.max};
    r.min = clamp(*std::min_element(ends, ends + 4));
    r.max = clamp(*std::max_element(ends, ends + 4));
  } else if (a.min && b.min && *a.min >= 0 && *b.min >= 0) {
    r.min = clamp(Wide(*a.min) * *b.min);
  }
  // (m x + r)(n y + s) = mn xy + ms x + nr y + rs
  Wide ms = Wide(a.multiple_of) * b.remainder, nr = Wide(b.multiple_of) * a.remainder;
  auto narrow_ms = clamp(ms), narrow_nr = clamp(nr), mn = clamp(Wide(a.multiple_of) * b.multiple_of);
  if (!narrow_ms || !narrow_nr || !mn) return r;
  return aligned(r, greatest_divisor(greatest_divisor(*narrow_ms, *narrow_nr), *mn), Wide(a.remainder) * b.remainder);
}

Interval floor_div(const Interval& a, const Interval& b) {
  Interval r;
  if (const auto point = b.as_point()) {
    const std::int64_t k = *point;
    if (k == 0) return Interval::point(0);
    const auto& low = k > 0 ? a.min : a.max;
    const auto& high = k > 0 ? a.max : a.min;
    if (low) r.min = floor_quotient(*low, k);
    if (high) r.max = floor_quotient(*high, k);
    if (a.multiple_of % k == 0 && k > 0) return aligned(r, a.multiple_of / k, floor_quotient(a.remainder, k));
    return aligned(r, 1, 0);
  }
  if (b.min && *b.min >= 1) {
    if (a.min) r.min = *a.min >= 0 ? (b.max ? *a.min / *b.max : 0) : floor_quotient(*a.min, *b.min);
    if (a.max) r.max = *a.max >= 0 ? *a.max / *b.min : (b.max ? floor_quotient(*a.max, *b.max) : -1);
    return aligned(r, 1, 0);
  }
  if (b.min && *b.min >= 0) {  // x // 0 is 0
    if (a.min) r.min = std::min<std::int64_t>(*a.min, 0);
    if (a.max) r.max = std::max<std::int64_t>(*a.max, 0);
  } else if (a.min && a.max) {
    const auto below = clamp(-Wide(*a.min)), above = clamp(*a.max);
    if (!below || !above) return r;
    const std::int64_t most = std::max({*below, *above, -*below, -*above});
    r.min = -most;
    r.max = most;
  }
  return r;
}

Interval floor_mod(const Interval& a, const Interval& b) {
  Interval r;
  if (const auto point = b.as_point()) {
    const std::int64_t k = *point;
    if (k == 0) return Interval::point(0);
    if (k > 0) {
      if (a.min && a.max && *a.min >= -limit && k <= limit) {
        const std::int64_t quotient = floor_quotient(*a.min, k);
        if (quotient == floor_quotient(*a.max, k)) return a - Interval::point(quotient * k);
      }
      r.min = 0;
      r.max = k - 1;
      return aligned(r, greatest_divisor(a.multiple_of, k), a.remainder);
    }
    r.min = k + 1;
    r.max = 0;
    return r;
  }
  if (b.min && *b.min >= 0) {
    r.min = 0;
    if (b.max) r.max = std::max<std::int64_t>(*b.max - 1, 0);
    if (a.min && a.max && *a.min >= 0 && (!r.max || *a.max < *r.max)) r.max = a.max;
    return r;
  }
  if (b.min && b.max) {
    r.min = std::min<std::int64_t>(*b.min + 1, 0);
    r.max = std::max<std::int64_t>(*b.max - 1, 0);
  }
  return r;
}

Interval min(const Interval& a, const Interval& b) {
  Interval r = unite(a, b);
  r.min = a.min && b.min ? std::optional(std::min(*a.min, *b.min)) : std::nullopt;
  r.max = a.max && b.max ? std::optional(std::min(*a.max, *b.max)) : a.max ? a.max : b.max;
  const auto value = r.as_point();
  return value ? Interval::point(*value) : r;
}

Interval max(const Interval& a, const Interval& b) {
  Interval r = unite(a, b);
  r.max = a.max && b.max ? std::optional(std::max(*a.max, *b.max)) : std::nullopt;
  r.min = a.min && b.min ? std::optional(std::max(*a.min, *b.min)) : a.min ? a.min : b.min;
  const auto value = r.as_point();
  return value ? Interval::point(*value) : r;
}

Interval unite(const Interval& a, const Interval& b) {
  Interval r;
  if (a.min && b.min) r.min = std::min(*a.min, *b.min);
  if (a.max && b.max) r.max = std::max(*a.max, *b.max);
  auto apart = clamp(Wide(a.remainder) - b.remainder);
  if (!apart) return r;
  return aligned(r, greatest_divisor(greatest_divisor(a.multiple_of, b.multiple_of), *apart), a.remainder);
}

Interval intersect(const Interval& a, const Interval& b) {
  Interval r = a;
  if (b.min && (!r.min || *b.min > *r.min)) r.min = b.min;
  if (b.max && (!r.max || *b.max < *r.max)) r.max = b.max;
  if (r.min && r.max && *r.min > *r.max) return a;
  const Interval& finer = b.multiple_of == 0 || (a.multiple_of != 0 && b.multiple_of > a.multiple_of) ? b : a;
  return aligned(r, finer.multiple_of, finer.remainder);
}

}  // namespace lathe
