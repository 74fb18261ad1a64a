#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "jit/trace/tensor.h"

namespace lathe {

/// Sets of dtypes, for what an operator takes.
enum Accepts : unsigned {
  accepts_bool = 1,
  accepts_signed = 2,
  accepts_unsigned = 4,
  accepts_float = 8,
  accepts_integer = accepts_signed | accepts_unsigned,
  accepts_integer_or_bool = accepts_integer | accepts_bool,
  accepts_number = accepts_integer | accepts_float,
  accepts_any = accepts_number | accepts_bool
};

bool is_accepted(unsigned accepts, DType dtype);
/// "f16, bf16, f32, f64"
std::string describe_accepted(unsigned accepts);

/// The type that two arrays' elements meet in, by the Array API standard's tables; f16 with bf16 gives f32. Nothing
/// where the standard leaves it undefined: kinds that differ, and u64 with a signed integer.
std::optional<DType> promote(DType a, DType b);

/// The common dtype of an operator's operands. Weak scalars give way to arrays: a bool to bools, an int to integers and
/// floats, a float to floats. InputError(type) naming `name` when there is none, or when `accepts` lacks it.
DType result_type(std::string_view name, std::span<const Tensor> operands, unsigned accepts = accepts_any);

/// As result_type, of an array that an operator makes: floats alone, which have no array to give way to, make f32, as
/// `zeros` and `linspace` do.
DType array_type(std::string_view name, std::span<const Tensor> operands);

/// What arithmetic on `dtype` is computed in: f32 for f16 and bf16, else the type itself.
DType arithmetic_type(DType dtype);
/// Is it f16 or bf16, which arithmetic is computed wider than?
inline bool is_half(DType dtype) {
  return arithmetic_type(dtype) != dtype;
}

/// A cast that folds constants.
Expr convert(DType dtype, const Expr& value);

}  // namespace lathe
