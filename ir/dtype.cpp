#include "ir/dtype.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace lathe {
namespace {

struct Named {
  const char* name;
  DType dtype;
};
constexpr Named names[] = {{"bool", boolean}, {"i8", i8},   {"i16", i16}, {"i32", i32}, {"i64", i64},
                           {"u8", u8},        {"u16", u16}, {"u32", u32}, {"u64", u64}, {"f16", f16},
                           {"bf16", bf16},    {"f32", f32}, {"f64", f64}};

/// Rounds to a format of `significand` bits (the hidden one counted), whose least normal value is 2^(min_exponent - 1)
/// and whose greatest finite value is `greatest`. One rounding, straight from double.
double round_significand(double value, int significand, int min_exponent, double greatest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int ulp_exponent = std::max(exponent, min_exponent) - significand;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -ulp_exponent)), ulp_exponent);
  if (std::abs(rounded) > greatest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

}  // namespace

std::string to_string(DType dtype) {
  for (const Named& named : names) {
    if (named.dtype != dtype.element()) continue;
    return dtype.is_scalar() ? named.name : named.name + ("x" + std::to_string(dtype.lanes));
  }
  return "invalid";
}

std::optional<DType> parse_dtype(std::string_view name) {
  int lanes = 1;
  if (const size_t x = name.find('x'); x != std::string_view::npos) {
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + x + 1, end, lanes);
    if (error != std::errc() || stop != end || lanes < 2 || lanes > 65535) return std::nullopt;
    name = name.substr(0, x);
  }
  for (const Named& named : names) {
    if (name == named.name) return named.dtype.with_lanes(lanes);
  }
  return std::nullopt;
}

std::int64_t integer_min(DType dtype) {
  if (!dtype.is_signed()) return 0;
  return std::numeric_limits<std::int64_t>::min() >> (64 - dtype.bits);
}

std::int64_t integer_max(DType dtype) {
  if (dtype.is_bool()) return 1;
  if (dtype.is_signed()) return std::numeric_limits<std::int64_t>::max() >> (64 - dtype.bits);
  return static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - dtype.bits));
}

std::int64_t wrap_integer(DType dtype, std::int64_t value) {
  if (dtype.is_bool()) return value != 0;
  if (dtype.bits == 64) return value;
  const auto shift = 64 - dtype.bits;
  const auto high = static_cast<std::uint64_t>(value) << shift;
  return dtype.is_signed() ? static_cast<std::int64_t>(high) >> shift : static_cast<std::int64_t>(high >> shift);
}

double round_to(DType dtype, double value) {
  if (dtype.element() == f32) return static_cast<float>(value);
  if (dtype.element() == f16) return round_significand(value, 11, -13, 65504.0);
  if (dtype.element() == bf16) return round_significand(value, 8, -125, 0x1.fep127);
  return value;
}

}  // namespace lathe
