#pragma once
#include <optional>
#include <string_view>

#include "jit/trace/tensor.h"

namespace lathe {

/// Which axes of a shape a reduction folds, and what is left.
struct Folding {
  Folding(std::string_view name, const Tensor& x, const std::optional<std::vector<std::int64_t>>& axes, bool keepdims);

  Shape result;  ///< the shape that is left; folded axes have extent 1 in it when keepdims
  Shape folded;  ///< the extents that are folded, one at least
  /// The indices into x of result index `i` and fold index `r`.
  Indices join(const Indices& i, const Indices& r) const;
  /// The number of elements folded into one.
  Expr count() const;
  bool is_empty() const;

 private:
  std::vector<bool> folds_;
  bool keepdims_;
};

}  // namespace lathe
