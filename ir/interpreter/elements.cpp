#include <bit>
#include <cstring>

#include "ir/interpreter/arithmetic.h"

namespace lathe::interpreter {
namespace {

std::uint64_t f16_bits(double value) {
  const std::uint64_t sign = std::bit_cast<std::uint64_t>(value) >> 63 << 15;
  const double magnitude = value < 0 ? -value : value;
  if (value != value) return sign | 0x7e00;
  if (magnitude > 65504.0) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  const auto wide = std::bit_cast<std::uint64_t>(magnitude);
  const int exponent = static_cast<int>(wide >> 52) - 1023;
  // Below 2^-14 the value is a count of 2^-24.
  if (exponent < -14) return sign | static_cast<std::uint64_t>(magnitude * 0x1p24);
  return sign | static_cast<std::uint64_t>(exponent + 15) << 10 | (wide >> 42 & 0x3ff);
}

double f16_value(std::uint64_t bits) {
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 10 & 0x1f);
  const auto fraction = static_cast<double>(bits & 0x3ff);
  if (exponent == 31) {
    return std::bit_cast<double>((bits >> 15 << 63) | 0x7ff0000000000000u | (bits & 0x3ff) << 42);
  }
  if (exponent == 0) return sign * fraction * 0x1p-24;
  return sign * (1 + fraction * 0x1p-10) *
         std::bit_cast<double>(static_cast<std::uint64_t>(exponent - 15 + 1023) << 52);
}

}  // namespace

std::uint64_t to_bits(DType dtype, Cell value) {
  if (!dtype.is_float()) {
    const auto bits = static_cast<std::uint64_t>(value.i);
    return dtype.bits == 64 ? bits : bits & ((std::uint64_t{1} << dtype.bits) - 1);
  }
  const double rounded = round_to(dtype, value.d);
  if (dtype.bits == 64) return std::bit_cast<std::uint64_t>(rounded);
  if (dtype.code == TypeCode::floating && dtype.bits == 16) return f16_bits(rounded);
  const auto single = std::bit_cast<std::uint32_t>(static_cast<float>(rounded));
  if (dtype.bits == 32) return single;
  // A NaN whose payload lies in the low half alone must not become an infinity.
  return rounded != rounded ? (single >> 16 | 0x40) : single >> 16;
}

Cell from_bits(DType dtype, std::uint64_t bits) {
  if (!dtype.is_float()) {
    if (dtype.is_bool()) return {.i = (bits & 0xff) != 0};
    return {.i = wrap_integer(dtype, static_cast<std::int64_t>(bits))};
  }
  if (dtype.bits == 64) return {.d = std::bit_cast<double>(bits)};
  if (dtype.bits == 32) return {.d = std::bit_cast<float>(static_cast<std::uint32_t>(bits))};
  if (dtype.code == TypeCode::brain) return {.d = std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16))};
  return {.d = f16_value(bits & 0xffff)};
}

Cell load_element(DType dtype, const std::byte* address) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, address, static_cast<size_t>(dtype.bytes()));
  return from_bits(dtype, bits);
}

void store_element(DType dtype, std::byte* address, Cell value) {
  const std::uint64_t bits = to_bits(dtype, value);
  std::memcpy(address, &bits, static_cast<size_t>(dtype.bytes()));
}

}  // namespace lathe::interpreter
