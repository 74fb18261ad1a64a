#include <fmt/format.h>

#include <algorithm>

#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/view_shape.h"

namespace lathe::ops {
namespace {

/// A product of extents: a constant and symbolic factors.
struct Product {
  std::int64_t constant = 1;
  std::vector<Expr> factors;

  void multiply(const Expr& extent) {
    if (const std::int64_t* value = as_int(extent)) {
      constant *= *value;
    } else if (const Binary* node = extent.as<Binary>(); node && node->op == BinaryOp::mul) {
      multiply(node->a);
      multiply(node->b);
    } else {
      factors.push_back(extent);
    }
  }

  /// This product without the factors of `other`; nothing unless it has them all.
  std::optional<std::vector<Expr>> factors_beyond(const Product& other) const {
    std::vector<Expr> rest = factors;
    for (const Expr& factor : other.factors) {
      const auto found = std::find_if(rest.begin(), rest.end(), [&](const Expr& e) { return same_extent(e, factor); });
      if (found == rest.end()) return std::nullopt;
      rest.erase(found);
    }
    return rest;
  }

  bool equals(const Product& other) const {
    const auto rest = factors_beyond(other);
    return rest && rest->empty() && constant == other.constant;
  }

  /// Is this the lesser of two that are not equal, as far as one can tell?
  bool less_than(const Product& other) const {
    if (factors.size() != other.factors.size()) return factors.size() < other.factors.size();
    return constant < other.constant;
  }
};

Product product_of(const Shape& shape) {
  Product product;
  for (const Expr& extent : shape) product.multiply(extent);
  return product;
}

[[noreturn]] void fail_extent(const Tensor& x, const Shape& shape, const char* why) {
  fail_value("reshape", fmt::format("{}: given {} and shape {}", why, describe(x), describe(shape)));
}

/// Replaces the -1 in `shape`.
Shape infer_extent(const Tensor& x, Shape shape) {
  const auto unknown = [](const Expr& extent) { return is_int(extent, -1); };
  const auto place = std::find_if(shape.begin(), shape.end(), unknown);
  if (place == shape.end()) return shape;
  if (std::count_if(shape.begin(), shape.end(), unknown) > 1) fail_extent(x, shape, "only one extent can be -1");
  *place = index(1);
  const Product known = product_of(shape), total = product_of(x.shape());
  *place = index(-1);
  const auto rest = total.factors_beyond(known);
  if (known.constant == 0 || !rest || total.constant % known.constant != 0) {
    fail_extent(x, shape, "the extent -1 has no whole value");
  }
  Expr extent = index(total.constant / known.constant);
  for (const Expr& factor : *rest) extent = factor * extent;
  *place = extent;
  return shape;
}

/// Consecutive dimensions of the source and of the result that hold the same number of elements.
struct Group {
  std::vector<size_t> from, to;
};

/// The finest groups; dimensions of extent 1 belong to none.
std::vector<Group> match_groups(const Shape& from, const Shape& to) {
  std::vector<Group> groups;
  size_t i = 0, j = 0;
  const auto skip = [](const Shape& shape, size_t& d) {
    while (d < shape.size() && is_int(shape[d], 1)) ++d;
  };
  for (skip(from, i), skip(to, j); i < from.size() && j < to.size(); skip(from, i), skip(to, j)) {
    Group group{{i}, {j}};
    Product left, right;
    left.multiply(from[i++]);
    right.multiply(to[j++]);
    while (!left.equals(right)) {
      const bool extend_left = i < from.size() && (left.less_than(right) || j == to.size());
      if (extend_left) {
        if (!is_int(from[i], 1)) group.from.push_back(i);
        left.multiply(from[i++]);
      } else if (j < to.size()) {
        if (!is_int(to[j], 1)) group.to.push_back(j);
        right.multiply(to[j++]);
      } else {
        break;
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

Expr flatten(const Group& group, const Shape& shape, const Indices& i) {
  Expr flat = i[group.to[0]];
  for (size_t k = 1; k < group.to.size(); ++k) flat = flat * shape[group.to[k]] + i[group.to[k]];
  return flat;
}

void unflatten(Expr flat, const Group& group, const Shape& shape, Indices& result) {
  for (size_t k = group.from.size(); k-- > 1;) {
    const Expr& extent = shape[group.from[k]];
    result[group.from[k]] = floor_mod(flat, extent);
    flat = floor_div(flat, extent);
  }
  result[group.from[0]] = flat;
}

}  // namespace

Tensor reshape_to(const Tensor& x, const Shape& given) {
  for (const Expr& extent : given) {
    if (const std::int64_t* value = as_int(extent); value && *value < -1) {
      fail_value("reshape", fmt::format("extents are not negative, but for one -1: given shape {}", describe(given)));
    }
  }
  const Shape shape = infer_extent(x, given);
  const Product total = product_of(x.shape());
  if (!total.equals(product_of(shape))) {
    fail_value("reshape",
               fmt::format("the number of elements must stay: given {} and shape {}", describe(x), describe(given)));
  }
  if (same_shape(shape, x.shape())) return x;
  if (total.constant == 0) {
    return view(
        shape, x.dtype(), [dtype = x.dtype()](const Indices&, const Expr&) { return constant(dtype, 0); }, "reshape");
  }
  return view(
      shape, x.dtype(),
      [x, shape, groups = match_groups(x.shape(), shape)](const Indices& i, const Expr& mask) {
        Indices source(x.rank(), index(0));
        for (const Group& group : groups) unflatten(flatten(group, shape, i), group, x.shape(), source);
        return x.at(source, mask);
      },
      "reshape");
}

Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape) {
  return reshape_to(x, make_shape(shape));
}

}  // namespace lathe::ops
