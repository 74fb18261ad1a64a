#include "jit/trace/broadcast.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/structural.h"
#include "jit/trace/describe.h"

namespace lathe {
namespace {

/// Where two shapes disagree, for the message; counted from the right, so that it holds for either.
struct Conflict {
  size_t from_right;
  Expr left, right;
};

std::optional<Conflict> broadcast_into(Shape& result, const Shape& shape) {
  if (shape.size() > result.size()) result.insert(result.begin(), shape.size() - result.size(), index(1));
  for (size_t d = 0; d < shape.size(); ++d) {
    Expr& extent = result[result.size() - shape.size() + d];
    if (is_int(shape[d], 1) || same_extent(extent, shape[d])) continue;
    if (!is_int(extent, 1)) return Conflict{shape.size() - d, extent, shape[d]};
    extent = shape[d];
  }
  return std::nullopt;
}

std::string conflict_message(const std::string& given, const Conflict& conflict) {
  return fmt::format("shapes do not broadcast: given {}; expected equal extents, or 1, but axis -{} has {} and {}",
                     given, conflict.from_right, describe(conflict.left), describe(conflict.right));
}

}  // namespace

bool same_extent(const Expr& a, const Expr& b) {
  if (a == b) return true;
  const std::int64_t* left = as_int(a);
  const std::int64_t* right = as_int(b);
  if (left || right) return left && right && *left == *right;
  return equal(a, b);
}

bool same_shape(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_extent);
}

Shape broadcast_shapes(std::string_view name, std::span<const Tensor> operands) {
  Shape result;
  for (const Tensor& tensor : operands) {
    if (auto conflict = broadcast_into(result, tensor.shape())) {
      fail_value(name, conflict_message(describe(operands), *conflict));
    }
  }
  return result;
}

Shape broadcast_shapes(std::string_view name, std::span<const Shape> shapes, const std::string& given) {
  Shape result;
  for (const Shape& shape : shapes) {
    if (auto conflict = broadcast_into(result, shape)) fail_value(name, conflict_message(given, *conflict));
  }
  return result;
}

Expr at_broadcast(const Tensor& tensor, std::span<const Expr> indices, const Expr& mask) {
  const Shape& shape = tensor.shape();
  Indices own(indices.end() - static_cast<std::ptrdiff_t>(shape.size()), indices.end());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (is_int(shape[d], 1)) own[d] = index(0);
  }
  return tensor.at(own, mask);
}

size_t normalize_axis(std::string_view name, std::int64_t axis, size_t rank) {
  const std::int64_t count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count) {
    fail_value(name, rank == 0 ? fmt::format("axis {} is out of range: the tensor has no axes", axis)
                               : fmt::format("axis {} is out of range: expected {} to {}", axis, -count, count - 1));
  }
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

std::vector<size_t> normalize_axes(std::string_view name, std::span<const std::int64_t> axes, size_t rank) {
  std::vector<size_t> result;
  for (std::int64_t axis : axes) {
    const size_t normal = normalize_axis(name, axis, rank);
    if (std::find(result.begin(), result.end(), normal) != result.end()) {
      fail_value(name, fmt::format("axis {} occurs twice in ({})", normal, fmt::join(axes, ", ")));
    }
    result.push_back(normal);
  }
  return result;
}

}  // namespace lathe
