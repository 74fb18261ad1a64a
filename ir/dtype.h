#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

/// Numeric kinds, with DLPack's own codes, so that a border copies and never translates.
enum class TypeCode : std::uint8_t { integer = 0, unsigned_integer = 1, floating = 2, brain = 4, boolean = 6 };

/// An element type and the number of vector lanes that a value of it carries (1 is a scalar).
/// Memory is always in elements: a bool takes one byte.
struct DType {
  TypeCode code = TypeCode::integer;
  std::uint8_t bits = 64;
  std::uint16_t lanes = 1;

  friend constexpr bool operator==(DType, DType) = default;

  constexpr bool is_bool() const { return code == TypeCode::boolean; }
  constexpr bool is_signed() const { return code == TypeCode::integer; }
  constexpr bool is_unsigned() const { return code == TypeCode::unsigned_integer; }
  constexpr bool is_integer() const { return is_signed() || is_unsigned(); }
  constexpr bool is_float() const { return code == TypeCode::floating || code == TypeCode::brain; }
  constexpr bool is_scalar() const { return lanes == 1; }
  /// Bytes of one element in memory.
  constexpr std::int64_t bytes() const { return (bits + 7) / 8; }
  constexpr DType with_lanes(int count) const { return {code, bits, static_cast<std::uint16_t>(count)}; }
  constexpr DType element() const { return with_lanes(1); }
};

inline constexpr DType boolean{TypeCode::boolean, 8};
inline constexpr DType i8{TypeCode::integer, 8}, i16{TypeCode::integer, 16}, i32{TypeCode::integer, 32},
    i64{TypeCode::integer, 64};
inline constexpr DType u8{TypeCode::unsigned_integer, 8}, u16{TypeCode::unsigned_integer, 16},
    u32{TypeCode::unsigned_integer, 32}, u64{TypeCode::unsigned_integer, 64};
inline constexpr DType f16{TypeCode::floating, 16}, bf16{TypeCode::brain, 16}, f32{TypeCode::floating, 32},
    f64{TypeCode::floating, 64};

/// Every element type, in the order in which tables list them.
inline constexpr DType all_dtypes[] = {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64};

/// "f32", "bool", "i64x8" (with lanes).
std::string to_string(DType dtype);
/// The inverse of to_string; nothing when `name` is no type.
std::optional<DType> parse_dtype(std::string_view name);

/// The least and the greatest value of an integer or bool type, as int64 (u64's greatest reads as -1).
std::int64_t integer_min(DType dtype);
std::int64_t integer_max(DType dtype);

/// `value` wrapped to the width and sign of an integer type (modulo 2^bits); any other value of bool becomes 0 or 1.
std::int64_t wrap_integer(DType dtype, std::int64_t value);

/// `value` rounded to the nearest of `dtype` (ties to even), as the double that it is: f16, bf16, f32 round, f64 keeps.
double round_to(DType dtype, double value);

}  // namespace lathe
