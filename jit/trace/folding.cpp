#include "jit/trace/folding.h"

#include <algorithm>

#include "jit/trace/broadcast.h"

namespace lathe {

Folding::Folding(std::string_view name, const Tensor& x, const std::optional<std::vector<std::int64_t>>& axes,
                 bool keepdims)
    : folds_(x.rank(), !axes), keepdims_(keepdims) {
  if (axes) {
    for (size_t axis : normalize_axes(name, *axes, x.rank())) folds_[axis] = true;
  }
  for (size_t d = 0; d < x.rank(); ++d) {
    if (!folds_[d]) {
      result.push_back(x.shape()[d]);
      continue;
    }
    folded.push_back(x.shape()[d]);
    if (keepdims) result.push_back(index(1));
  }
  if (folded.empty()) folded.push_back(index(1));
}

Indices Folding::join(const Indices& i, const Indices& r) const {
  Indices joined;
  size_t next = 0, next_folded = 0;
  for (bool folds : folds_) {
    joined.push_back(folds ? r[next_folded++] : i[next]);
    if (!folds || keepdims_) ++next;
  }
  return joined;
}

Expr Folding::count() const {
  Expr product = index(1);
  for (const Expr& extent : folded) product = product * extent;
  return product;
}

bool Folding::is_empty() const {
  return std::any_of(folded.begin(), folded.end(), [](const Expr& extent) { return is_int(extent, 0); });
}

}  // namespace lathe
