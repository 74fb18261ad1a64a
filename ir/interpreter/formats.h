#pragma once
/// How the arithmetic kernels see each dtype: `Value` is the C++ type that an operation computes in, `get` and `put`
/// move it out of and into a cell, `put` rounding to the dtype.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ir/interpreter/arithmetic.h"

namespace lathe::interpreter {

template <class T>
struct IntegerFormat {
  using Value = T;
  static constexpr bool is_float = false;
  static T get(Cell cell) { return static_cast<T>(cell.i); }
  static Cell put(T value) { return {.i = static_cast<std::int64_t>(value)}; }
};

struct BoolFormat {
  using Value = std::uint8_t;
  static constexpr bool is_float = false;
  static Value get(Cell cell) { return cell.i != 0; }
  static Cell put(Value value) { return {.i = value != 0}; }
};

struct F32Format {
  using Value = float;
  static constexpr bool is_float = true;
  static float get(Cell cell) { return static_cast<float>(cell.d); }
  static Cell put(float value) { return {.d = value}; }
  /// The result of a function that was computed more widely.
  static Cell round(double value) { return {.d = static_cast<float>(value)}; }
};

struct F64Format {
  using Value = double;
  static constexpr bool is_float = true;
  static double get(Cell cell) { return cell.d; }
  static Cell put(double value) { return {.d = value}; }
  static Cell round(long double value) { return {.d = static_cast<double>(value)}; }
};

/// f16 and bf16: the double result of one operation, rounded once. Products and quotients of such short significands
/// are far from double's rounding boundaries, so the second rounding is innocuous.
template <bool brain>
struct ShortFormat {
  using Value = double;
  static constexpr bool is_float = true;
  static double get(Cell cell) { return cell.d; }
  static Cell put(double value) { return {.d = round_to(brain ? bf16 : f16, value)}; }
  static Cell round(double value) { return put(value); }
};

/// The type in which a format's library functions are computed: wider than its own, so that the rounded result is the
/// correctly rounded one but for rare ties.
template <class Format>
using Wide = std::conditional_t<std::is_same_v<Format, F64Format>, long double, double>;

/// Calls `f` with the format of `dtype` as a value.
template <class F>
auto with_format(DType dtype, bool exact, F f) {
  if (dtype.is_float()) {
    if (exact || dtype.bits == 64) return f(F64Format());
    if (dtype.bits == 32) return f(F32Format());
    if (dtype.code == TypeCode::brain) return f(ShortFormat<true>());
    return f(ShortFormat<false>());
  }
  if (dtype.is_bool()) return f(BoolFormat());
  if (dtype.is_signed()) {
    if (dtype.bits == 8) return f(IntegerFormat<std::int8_t>());
    if (dtype.bits == 16) return f(IntegerFormat<std::int16_t>());
    if (dtype.bits == 32) return f(IntegerFormat<std::int32_t>());
    return f(IntegerFormat<std::int64_t>());
  }
  if (dtype.bits == 8) return f(IntegerFormat<std::uint8_t>());
  if (dtype.bits == 16) return f(IntegerFormat<std::uint16_t>());
  if (dtype.bits == 32) return f(IntegerFormat<std::uint32_t>());
  return f(IntegerFormat<std::uint64_t>());
}

}  // namespace lathe::interpreter
