#include <algorithm>
#include <bit>

#include "ir/error.h"
#include "ir/interpreter/formats.h"

namespace lathe::interpreter {
namespace {

template <class Format, auto function>
void apply(Cell* out, const Cell* a, const Cell* b, int lanes) {
  for (int l = 0; l < lanes; ++l) out[l] = function(Format(), Format::get(a[l]), Format::get(b[l]));
}

/// The quotient and the remainder as Python has them on floats (floatobject.c's float_divmod describes the cases): the
/// remainder is exact and has y's sign, the quotient is the integer nearest to (x - remainder) / y. A zero divisor
/// gives x / y and NaN, as NumPy has it.
template <class T>
struct FloatDivision {
  T quotient, remainder;
  FloatDivision(T x, T y) {
    remainder = std::fmod(x, y);
    if (y == 0) {
      quotient = x / y;
      return;
    }
    quotient = (x - remainder) / y;
    if (remainder != 0) {
      if ((y < 0) != (remainder < 0)) {
        remainder += y;
        quotient -= 1;
      }
    } else {
      remainder = std::copysign(T{0}, y);
    }
    if (quotient != 0) {
      const T whole = std::floor(quotient);
      quotient = quotient - whole > T(0.5) ? whole + 1 : whole;
    } else {
      quotient = std::copysign(T{0}, x / y);
    }
  }
};

template <class T>
T smaller(T x, T y) {
  if (std::isnan(x) || std::isnan(y)) return x + y;
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}

template <class T>
T greater(T x, T y) {
  if (std::isnan(x) || std::isnan(y)) return x + y;
  if (x == y) return std::signbit(x) ? y : x;
  return x > y ? x : y;
}

/// The neighbour of x toward y in a format of `digits` stored significand bits (f16: 10, bf16: 7), by its bits.
template <class Format>
double next_short(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return x + y;
  if (x == y) return y;
  const DType dtype = std::is_same_v<Format, ShortFormat<true>> ? bf16 : f16;
  if (x == 0) return std::copysign(from_bits(dtype, 1).d, y);
  const std::uint64_t bits = to_bits(dtype, {.d = x});
  return from_bits(dtype, (x < y) == (x > 0) ? bits + 1 : bits - 1).d;
}

template <class Format>
  requires Format::is_float
BinaryKernel kernel_of(BinaryOp op) {
  using T = typename Format::Value;
  using W = Wide<Format>;
  switch (op) {
#define LATHE_CASE(name, expression) \
  case BinaryOp::name:               \
    return apply<Format, [](Format, T x, T y) { return expression; }>;
    LATHE_CASE(add, Format::put(x + y))
    LATHE_CASE(sub, Format::put(x - y))
    LATHE_CASE(mul, Format::put(x * y))
    LATHE_CASE(div, Format::put(x / y))
    LATHE_CASE(floor_div, Format::put(FloatDivision<T>(x, y).quotient))
    LATHE_CASE(floor_mod, Format::put(FloatDivision<T>(x, y).remainder))
    LATHE_CASE(min, Format::put(smaller(x, y)))
    LATHE_CASE(max, Format::put(greater(x, y)))
    LATHE_CASE(eq, (Cell{.i = x == y}))
    LATHE_CASE(ne, (Cell{.i = x != y}))
    LATHE_CASE(lt, (Cell{.i = x < y}))
    LATHE_CASE(le, (Cell{.i = x <= y}))
    LATHE_CASE(gt, (Cell{.i = x > y}))
    LATHE_CASE(ge, (Cell{.i = x >= y}))
    LATHE_CASE(pow, Format::round(std::pow(W(x), W(y))))
    LATHE_CASE(atan2, Format::round(std::atan2(W(x), W(y))))
    LATHE_CASE(hypot, Format::round(std::hypot(W(x), W(y))))
    LATHE_CASE(copysign, Format::put(std::copysign(x, y)))
#undef LATHE_CASE
    case BinaryOp::nextafter:
      return apply<Format, [](Format, T x, T y) {
        if constexpr (std::is_same_v<Format, F32Format> || std::is_same_v<Format, F64Format>) {
          return Format::put(std::nextafter(x, y));
        } else {
          return Format::put(next_short<Format>(x, y));
        }
      }>;
    default:
      return nullptr;
  }
}

template <class T>
T floor_quotient(T x, T y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return static_cast<T>(0 - static_cast<std::uint64_t>(x));
    return static_cast<T>(x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0));
  } else {
    return static_cast<T>(x / y);
  }
}

template <class T>
T floor_remainder(T x, T y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return 0;
    const T r = static_cast<T>(x % y);
    return r != 0 && (r < 0) != (y < 0) ? static_cast<T>(r + y) : r;
  } else {
    return static_cast<T>(x % y);
  }
}

/// Powers modulo the width. A negative exponent truncates the true quotient: 1 and -1 keep their powers, the rest is 0.
template <class T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  using Unsigned = std::make_unsigned_t<T>;
  std::uint64_t result = 1, square = static_cast<Unsigned>(base);
  for (auto e = static_cast<Unsigned>(exponent); e != 0; e >>= 1) {
    if (e & 1) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

template <class T>
T shift_left(T x, T count) {
  using U = std::make_unsigned_t<T>;
  const auto n = static_cast<U>(count);
  return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<std::uint64_t>(x) << n);
}

template <class T>
T shift_right(T x, T count) {
  using U = std::make_unsigned_t<T>;
  const auto n = static_cast<U>(count);
  if (n >= sizeof(T) * 8) return x < T{0} ? static_cast<T>(-1) : T{0};
  return static_cast<T>(x >> n);
}

template <class Format>
  requires(!Format::is_float)
BinaryKernel kernel_of(BinaryOp op) {
  using T = typename Format::Value;
  using U = std::uint64_t;
  switch (op) {
#define LATHE_CASE(name, expression) \
  case BinaryOp::name:               \
    return apply<Format, [](Format, T x, T y) { return Format::put(static_cast<T>(expression)); }>;
    LATHE_CASE(add, static_cast<U>(x) + static_cast<U>(y))
    LATHE_CASE(sub, static_cast<U>(x) - static_cast<U>(y))
    LATHE_CASE(mul, static_cast<U>(x) * static_cast<U>(y))
    LATHE_CASE(floor_div, floor_quotient(x, y))
    LATHE_CASE(floor_mod, floor_remainder(x, y))
    LATHE_CASE(min, std::min(x, y))
    LATHE_CASE(max, std::max(x, y))
    LATHE_CASE(bit_and, x & y)
    LATHE_CASE(bit_or, x | y)
    LATHE_CASE(bit_xor, x ^ y)
    LATHE_CASE(shl, shift_left(x, y))
    LATHE_CASE(shr, shift_right(x, y))
    LATHE_CASE(pow, integer_power(x, y))
    LATHE_CASE(logical_and, x && y)
    LATHE_CASE(logical_or, x || y)
#undef LATHE_CASE
#define LATHE_CASE(name, expression) \
  case BinaryOp::name:               \
    return apply<Format, [](Format, T x, T y) { return Cell{.i = (expression)}; }>;
    LATHE_CASE(eq, x == y)
    LATHE_CASE(ne, x != y)
    LATHE_CASE(lt, x < y)
    LATHE_CASE(le, x <= y)
    LATHE_CASE(gt, x > y)
    LATHE_CASE(ge, x >= y)
#undef LATHE_CASE
    default:
      return nullptr;
  }
}

template <class Format>
void scaleb_cells(Cell* out, const Cell* a, const Cell* n, int lanes) {
  for (int l = 0; l < lanes; ++l) {
    const auto power = Format::get(n[l]);
    // Past this every float has become zero or infinity; not a number scales as some value.
    const int exponent = std::isnan(power) ? 0 : static_cast<int>(std::floor(std::clamp<double>(power, -5000, 5000)));
    out[l] = Format::put(std::ldexp(Format::get(a[l]), exponent));
  }
}

template <class Format>
void fma_cells(Cell* out, const Cell* a, const Cell* b, const Cell* c, int lanes) {
  for (int l = 0; l < lanes; ++l)
    out[l] = Format::put(std::fma(Format::get(a[l]), Format::get(b[l]), Format::get(c[l])));
}

}  // namespace

BinaryKernel binary_kernel(BinaryOp op, DType dtype, bool exact) {
  BinaryKernel kernel = with_format(dtype, exact, [&]<class Format>(Format) { return kernel_of<Format>(op); });
  LATHE_CHECK(kernel, std::string(to_string(op)));
  return kernel;
}

BinaryKernel scaleb_kernel(DType dtype, bool exact) {
  BinaryKernel kernel = with_format(dtype, exact, [&]<class Format>(Format) -> BinaryKernel {
    if constexpr (Format::is_float) {
      return scaleb_cells<Format>;
    } else {
      return nullptr;
    }
  });
  LATHE_CHECK(kernel, "scaleb of " + to_string(dtype));
  return kernel;
}

TernaryKernel fma_kernel(DType dtype, bool exact) {
  TernaryKernel kernel = with_format(dtype, exact, [&]<class Format>(Format) -> TernaryKernel {
    if constexpr (Format::is_float) {
      return fma_cells<Format>;
    } else {
      return nullptr;
    }
  });
  LATHE_CHECK(kernel, "fma of " + to_string(dtype));
  return kernel;
}

}  // namespace lathe::interpreter
