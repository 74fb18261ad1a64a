#include "jit/trace/ops/view_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"

namespace lathe::ops {
namespace {

/// The view whose axis d is axis `source[d]` of x, or a new one of extent 1 where that is -1. Axes of x that do not
/// occur have extent 1.
Tensor rearrange(const Tensor& x, const std::vector<std::ptrdiff_t>& source, std::string name) {
  Shape shape;
  for (std::ptrdiff_t d : source) shape.push_back(d < 0 ? index(1) : x.shape()[d]);
  return view(
      shape, x.dtype(),
      [x, source](const Indices& i, const Expr& mask) {
        Indices own(x.rank(), index(0));
        for (size_t d = 0; d < source.size(); ++d) {
          if (source[d] >= 0) own[source[d]] = i[d];
        }
        return x.at(own, mask);
      },
      std::move(name));
}

std::vector<std::ptrdiff_t> identity_order(size_t rank) {
  std::vector<std::ptrdiff_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

Shape make_shape(const std::vector<std::int64_t>& extents) {
  Shape shape;
  for (std::int64_t extent : extents) shape.push_back(index(extent));
  return shape;
}

Tensor permute_dims(const Tensor& x, const std::vector<std::int64_t>& axes) {
  if (axes.size() != x.rank()) {
    fail_value("permute_dims",
               fmt::format("takes every axis once: given {} and axes ({})", describe(x), fmt::join(axes, ", ")));
  }
  std::vector<std::ptrdiff_t> order;
  for (size_t axis : normalize_axes("permute_dims", axes, x.rank())) order.push_back(static_cast<std::ptrdiff_t>(axis));
  return order == identity_order(x.rank()) ? x : rearrange(x, order, "permute_dims");
}

Tensor matrix_transpose(const Tensor& x) {
  if (x.rank() < 2) fail_value("matrix_transpose", fmt::format("takes two axes or more; given {}", describe(x)));
  std::vector<std::ptrdiff_t> order = identity_order(x.rank());
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  return rearrange(x, order, "matrix_transpose");
}

Tensor moveaxis(const Tensor& x, std::int64_t source, std::int64_t destination) {
  std::vector<std::ptrdiff_t> order = identity_order(x.rank());
  const size_t from = normalize_axis("moveaxis", source, x.rank()),
               to = normalize_axis("moveaxis", destination, x.rank());
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::ptrdiff_t>(from));
  return rearrange(x, order, "moveaxis");
}

Tensor expand_dims(const Tensor& x, const std::vector<std::int64_t>& axes) {
  const size_t rank = x.rank() + axes.size();
  const std::vector<size_t> added = normalize_axes("expand_dims", axes, rank);
  std::vector<std::ptrdiff_t> source;
  std::ptrdiff_t next = 0;
  for (size_t d = 0; d < rank; ++d) {
    const bool is_new = std::find(added.begin(), added.end(), d) != added.end();
    source.push_back(is_new ? -1 : next++);
  }
  return rearrange(x, source, "expand_dims");
}

Tensor squeeze(const Tensor& x, const std::vector<std::int64_t>& axes) {
  const std::vector<size_t> removed = normalize_axes("squeeze", axes, x.rank());
  for (size_t axis : removed) {
    if (!is_int(x.shape()[axis], 1)) {
      fail_value("squeeze",
                 fmt::format("axis {} of {} has extent {}; expected 1", axis, describe(x), describe(x.shape()[axis])));
    }
  }
  std::vector<std::ptrdiff_t> source;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (std::find(removed.begin(), removed.end(), d) == removed.end()) source.push_back(static_cast<std::ptrdiff_t>(d));
  }
  return rearrange(x, source, "squeeze");
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  bool fits = x.rank() <= shape.size();
  for (size_t d = 0; fits && d < x.rank(); ++d) {
    const Expr& extent = x.shape()[d];
    fits = is_int(extent, 1) || same_extent(extent, shape[shape.size() - x.rank() + d]);
  }
  if (!fits) fail_value("broadcast_to", fmt::format("{} does not broadcast to {}", describe(x), describe(shape)));
  if (same_shape(x.shape(), shape)) return x;
  return view(
      shape, x.dtype(), [x](const Indices& i, const Expr& mask) { return at_broadcast(x, i, mask); }, "broadcast_to");
}

Tensor flip(const Tensor& x, const std::optional<std::vector<std::int64_t>>& axes) {
  std::vector<bool> flipped(x.rank(), !axes);
  if (axes) {
    for (size_t axis : normalize_axes("flip", *axes, x.rank())) flipped[axis] = true;
  }
  return view(
      x.shape(), x.dtype(),
      [x, flipped](const Indices& i, const Expr& mask) {
        Indices source = i;
        for (size_t d = 0; d < x.rank(); ++d) {
          if (flipped[d]) source[d] = x.shape()[d] - index(1) - i[d];
        }
        return x.at(source, mask);
      },
      "flip");
}

}  // namespace lathe::ops
