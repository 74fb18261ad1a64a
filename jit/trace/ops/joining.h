#pragma once
#include <optional>
#include <utility>

#include "jit/trace/tensor.h"

/// Views that put tensors together, take them apart, or blank parts of them: each element is chosen among masked loads.
namespace lathe::ops {

/// Dtypes promote; shapes agree but for `axis`. Without an axis the tensors are flattened first.
Tensor concat(const std::vector<Tensor>& tensors, std::optional<std::int64_t> axis = 0);
/// Along a new axis.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);
/// Parts of these extents, whose sum is the axis's.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& extents, std::int64_t axis = 0);
/// `count` equal parts.
std::vector<Tensor> split(const Tensor& x, std::int64_t count, std::int64_t axis = 0);
/// One tensor for each index of the axis, which goes.
std::vector<Tensor> unstack(const Tensor& x, std::int64_t axis = 0);
/// `value` before and after each axis: one pair an axis, or one pair for all.
Tensor pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths, const Tensor& value = 0);
/// Element i goes to i + shift, around the end. Without axes, of the flattened tensor.
Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts,
            const std::optional<std::vector<std::int64_t>>& axes);
/// Zero above (below) diagonal k of the last two axes.
Tensor tril(const Tensor& x, std::int64_t k = 0);
Tensor triu(const Tensor& x, std::int64_t k = 0);

}  // namespace lathe::ops
