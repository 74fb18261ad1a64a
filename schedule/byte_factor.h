#pragma once
/// A factor of a sum of products that is narrow, and widened.
#include <optional>

#include "ir/expr.h"

namespace lathe {

/// What a factor of 8-bit integers loads, and where it is padded instead: `cast(x[i])`, or
/// `select(condition, cast(x[i]), border)`, however choice and cast lie in one another.
struct ByteFactor {
  const Load* load = nullptr;  ///< without a mask, but for one that holds where the condition does
  Expr condition;              ///< null where nothing is padded
  std::int64_t border = 0;     ///< a value of the load's type
};

/// Nothing where the expression is something else.
std::optional<ByteFactor> byte_factor(const Expr& e);
/// The same of bf16 that is zero where it is padded.
std::optional<ByteFactor> half_factor(const Expr& e);

/// The factor as one of `dtype` that loads `load` in its place, and is `border` where it is padded.
Expr padded_factor(const ByteFactor& factor, DType dtype, const Expr& load, std::int64_t border);

}  // namespace lathe
