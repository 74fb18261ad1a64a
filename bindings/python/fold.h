#pragma once
#include <optional>

#include "jit/trace/tensor.h"

namespace lathe::python {

/// What lathe.reduce gives. f16 and bf16 are folded in f32 by a named reducer, and rounded once, as the operators do.
struct Fold {
  Reduction reduction;
  std::optional<DType> rounded;

  /// Its value within an expression; an InputError(type) where it folds a tuple.
  Expr value() const;
};

}  // namespace lathe::python
