#pragma once
#include <optional>

#include "jit/trace/tensor.h"

/// Views of one tensor that move its elements: index maps, never copies.
namespace lathe::ops {

/// One extent may be -1: what is left over.
Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape);
/// The same where extents may be symbolic.
Tensor reshape_to(const Tensor& x, const Shape& shape);
Tensor permute_dims(const Tensor& x, const std::vector<std::int64_t>& axes);
Tensor matrix_transpose(const Tensor& x);  ///< swaps the last two axes
Tensor moveaxis(const Tensor& x, std::int64_t source, std::int64_t destination);
/// New axes of extent 1, at these places of the result.
Tensor expand_dims(const Tensor& x, const std::vector<std::int64_t>& axes);
/// Removes axes of extent 1.
Tensor squeeze(const Tensor& x, const std::vector<std::int64_t>& axes);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// Reverses axes; all of them when none is named.
Tensor flip(const Tensor& x, const std::optional<std::vector<std::int64_t>>& axes = std::nullopt);

/// Shapes of constants.
Shape make_shape(const std::vector<std::int64_t>& extents);

}  // namespace lathe::ops
