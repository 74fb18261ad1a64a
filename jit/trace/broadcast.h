#pragma once
#include <span>
#include <string_view>

#include "jit/trace/tensor.h"

namespace lathe {

/// Are two extents known to be the same? Constants by value, symbols by structure.
bool same_extent(const Expr& a, const Expr& b);
bool same_shape(const Shape& a, const Shape& b);

/// NumPy's broadcasting: shapes aligned at the right; extent 1 stretches. InputError(value) naming `name` otherwise.
Shape broadcast_shapes(std::string_view name, std::span<const Tensor> operands);
/// The same for a part of the operands' axes; messages show `given`.
Shape broadcast_shapes(std::string_view name, std::span<const Shape> shapes, const std::string& given);

/// The element of `tensor` at `indices` of a shape that it broadcasts to.
Expr at_broadcast(const Tensor& tensor, std::span<const Expr> indices, const Expr& mask = nullptr);

/// `axis` counted from the front; InputError(value) when it is not within [-rank, rank).
size_t normalize_axis(std::string_view name, std::int64_t axis, size_t rank);
/// The same for several, refusing one that occurs twice.
std::vector<size_t> normalize_axes(std::string_view name, std::span<const std::int64_t> axes, size_t rank);

}  // namespace lathe
