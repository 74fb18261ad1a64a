#include <bit>

#include "ir/error.h"
#include "ir/interpreter/formats.h"

namespace lathe::interpreter {
namespace {

template <class Format, auto function>
void apply(Cell* out, const Cell* a, int lanes) {
  for (int l = 0; l < lanes; ++l) out[l] = function(Format(), Format::get(a[l]));
}

template <class Format>
  requires Format::is_float
UnaryKernel kernel_of(UnaryOp op) {
  using Value = typename Format::Value;
  using W = Wide<Format>;
  switch (op) {
#define LATHE_ROUNDED(name, expression)            \
  case UnaryOp::name:                              \
    return apply<Format, [](Format, Value value) { \
      const W x = value;                           \
      return Format::round(expression);            \
    }>;
    LATHE_ROUNDED(neg, -x)
    LATHE_ROUNDED(abs, std::fabs(x))
    LATHE_ROUNDED(rsqrt, 1 / std::sqrt(x))
    LATHE_ROUNDED(floor, std::floor(x))
    LATHE_ROUNDED(ceil, std::ceil(x))
    LATHE_ROUNDED(trunc, std::trunc(x))
    LATHE_ROUNDED(round, std::nearbyint(x))
    LATHE_ROUNDED(exp, std::exp(x))
    LATHE_ROUNDED(exp2, std::exp2(x))
    LATHE_ROUNDED(expm1, std::expm1(x))
    LATHE_ROUNDED(log, std::log(x))
    LATHE_ROUNDED(log2, std::log2(x))
    LATHE_ROUNDED(log10, std::log10(x))
    LATHE_ROUNDED(log1p, std::log1p(x))
    LATHE_ROUNDED(sin, std::sin(x))
    LATHE_ROUNDED(cos, std::cos(x))
    LATHE_ROUNDED(tan, std::tan(x))
    LATHE_ROUNDED(asin, std::asin(x))
    LATHE_ROUNDED(acos, std::acos(x))
    LATHE_ROUNDED(atan, std::atan(x))
    LATHE_ROUNDED(sinh, std::sinh(x))
    LATHE_ROUNDED(cosh, std::cosh(x))
    LATHE_ROUNDED(tanh, std::tanh(x))
    LATHE_ROUNDED(asinh, std::asinh(x))
    LATHE_ROUNDED(acosh, std::acosh(x))
    LATHE_ROUNDED(atanh, std::atanh(x))
    LATHE_ROUNDED(erf, std::erf(x))
    LATHE_ROUNDED(sigmoid, 1 / (1 + std::exp(-x)))
#undef LATHE_ROUNDED
    // In the format's own type: a square root rounded twice, through long double, could miss the last bit.
    case UnaryOp::sqrt:
      return apply<Format, [](Format, Value x) { return Format::put(std::sqrt(x)); }>;
#define LATHE_TEST(name, test) \
  case UnaryOp::name:          \
    return apply<Format, [](Format, Value x) { return Cell{.i = test(x)}; }>;
      LATHE_TEST(is_nan, std::isnan)
      LATHE_TEST(is_inf, std::isinf)
      LATHE_TEST(is_finite, std::isfinite)
      LATHE_TEST(signbit, std::signbit)
#undef LATHE_TEST
    default:
      return nullptr;
  }
}

template <class Format>
  requires(!Format::is_float)
UnaryKernel kernel_of(UnaryOp op) {
  using Value = typename Format::Value;
  switch (op) {
    case UnaryOp::neg:
      return apply<Format,
                   [](Format, Value x) { return Format::put(static_cast<Value>(0 - static_cast<std::uint64_t>(x))); }>;
    case UnaryOp::bit_not:
      return apply<Format, [](Format, Value x) { return Format::put(static_cast<Value>(~x)); }>;
    case UnaryOp::logical_not:
      return apply<Format, [](Format, Value x) { return Cell{.i = x == 0}; }>;
    case UnaryOp::abs:
      return apply<Format, [](Format, Value x) {
        return Format::put(x < Value{0} ? static_cast<Value>(0 - static_cast<std::uint64_t>(x)) : x);
      }>;
    default:
      return nullptr;
  }
}

template <class To, class From>
void cast_cells(Cell* out, const Cell* a, int lanes) {
  for (int l = 0; l < lanes; ++l) {
    const auto x = From::get(a[l]);
    if constexpr (To::is_float) {
      // Every integer but the 64-bit ones is exact in double; those are rounded once, straight from the integer.
      if constexpr (std::is_same_v<To, F32Format>) {
        out[l] = To::put(static_cast<float>(x));
      } else {
        using Exact = std::conditional_t<(sizeof(x) == 8), long double, double>;
        out[l] = To::put(static_cast<double>(static_cast<Exact>(x)));
      }
    } else if constexpr (std::is_same_v<To, BoolFormat>) {
      out[l].i = x != 0;
    } else if constexpr (From::is_float) {
      // Out of range the value is unspecified; this one saturates to 64 bits and then wraps.
      const double t = std::trunc(static_cast<double>(x));
      std::int64_t i = 0;
      if (t >= 0x1p63) {
        i = t < 0x1p64 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(t)) : -1;
      } else if (t >= -0x1p63) {
        i = static_cast<std::int64_t>(t);
      } else if (t < 0) {
        i = INT64_MIN;
      }
      out[l] = To::put(static_cast<typename To::Value>(i));
    } else {
      out[l] = To::put(static_cast<typename To::Value>(x));
    }
  }
}

}  // namespace

UnaryKernel unary_kernel(UnaryOp op, DType dtype, bool exact) {
  UnaryKernel kernel = with_format(dtype, exact, [&]<class Format>(Format) { return kernel_of<Format>(op); });
  LATHE_CHECK(kernel, std::string(to_string(op)));
  return kernel;
}

UnaryKernel cast_kernel(DType to, DType from, bool exact) {
  return with_format(to, exact, [&]<class To>(To) {
    return with_format(from, exact, [&]<class From>(From) -> UnaryKernel { return cast_cells<To, From>; });
  });
}

}  // namespace lathe::interpreter
