#include "jit/trace/ops/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/indexing.h"
#include "jit/trace/ops/view_shape.h"
#include "jit/trace/promotion.h"
#include "jit/trace/tensor_node.h"

namespace lathe::ops {
namespace {

/// Tensors joined from which on the result is computed rather than looked at: each reader of a view would choose among
/// all of them anew.
constexpr size_t many_tensors = 3;

/// Parts of a stack of stacks up to which it is one stack: as many as vectors are woven of (measured on Zen 4: factors
/// of 3x3 matrices 0.15 of the time, of 4x4 0.77, of 5x5 2).
constexpr size_t most_joined = 16;

/// x without a part of `axis`: its indices run from `start`.
Tensor part(const Tensor& x, size_t axis, std::int64_t start, std::int64_t extent) {
  std::vector<Subscript> subscripts(axis, Slice{});
  subscripts.push_back(Slice{start, start + extent, 1});
  return getitem(x, subscripts);
}

std::int64_t constant_extent(std::string_view name, const Tensor& x, size_t axis) {
  const std::int64_t* extent = as_int(x.shape()[axis]);
  if (!extent)
    fail_value(name, fmt::format("axis {} of {} is symbolic; expected a constant extent", axis, describe(x)));
  return *extent;
}

/// One axis rolled: element i goes to i + shift modulo the extent. Along the last, rows in memory are two whole pieces;
/// of any other a row is one read elsewhere.
Tensor roll_axis(const Tensor& x, std::int64_t shift, size_t axis) {
  const std::int64_t extent = constant_extent("roll", x, axis);
  if (extent == 0) return x;
  const std::int64_t first = ((shift % extent) + extent) % extent;
  if (first == 0) return x;
  return view(
      x.shape(), x.dtype(),
      [=](const Indices& i, const Expr& mask) {
        Indices front = i, back = i;
        if (axis + 1 < i.size()) {
          back[axis] = floor_mod(i[axis] + (extent - first), index(extent));
          return x.at(back, mask);
        }
        const Expr wraps = lt(i[axis], index(first));
        front[axis] = i[axis] + (extent - first);
        back[axis] = i[axis] - first;
        return select(wraps, x.at(front, logical_and(mask, wraps)), x.at(back, logical_and(mask, logical_not(wraps))));
      },
      "roll");
}

Tensor triangle(const std::string& name, const Tensor& x, std::int64_t k, bool lower) {
  if (x.rank() < 2) fail_value(name, fmt::format("takes two axes or more; given {}", describe(x)));
  return view(
      x.shape(), x.dtype(),
      [=](const Indices& i, const Expr& mask) {
        const Expr &row = i[i.size() - 2], &column = i.back();
        const Expr kept = lower ? le(column, row + k) : ge(column, row + k);
        return x.at(i, logical_and(mask, kept));
      },
      name);
}

/// The stack, which knows of what it is made.
Tensor stacked_along(const Tensor& stack, const std::vector<Tensor>& parts, size_t axis) {
  TensorNode node = *stack.node();
  node.stacked = std::make_shared<const Stacked>(Stacked{parts, axis});
  return Tensor(std::make_shared<const TensorNode>(std::move(node)));
}

/// Are all of them stacks, of as many parts along one axis, and of one dtype?
bool are_stacks_alike(const std::vector<Tensor>& tensors) {
  const Stacked* first = tensors[0].node()->stacked.get();
  return first && std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
           const Stacked* own = tensor.node()->stacked.get();
           return own && own->axis == first->axis && own->parts.size() == first->parts.size() &&
                  tensor.dtype() == tensors[0].dtype();
         });
}

/// Stacks along a last axis that are stacked along one beside it, as the rows of a matrix whose elements are computed
/// one by one: one stack of all parts, whose axis is cut in two, so that vectors are woven of them. Along other axes
/// neighbours are of one part, and each is written where it goes.
///
///   stack([stack([a, b], 1), stack([c, d], 1)], 1)   ->   stack([a, b, c, d], 1), shaped [.., 2, 2]
std::optional<Tensor> stack_of_stacks(const std::vector<Tensor>& tensors, size_t axis) {
  if (!are_stacks_alike(tensors)) return std::nullopt;
  const Stacked& stacked = *tensors[0].node()->stacked;
  const size_t count = stacked.parts.size(), inner = stacked.axis < axis ? stacked.axis : stacked.axis + 1;
  const bool neighbours = inner == axis + 1 || inner + 1 == axis;
  if (tensors.size() * count > most_joined || !neighbours || std::max(inner, axis) != tensors[0].rank())
    return std::nullopt;
  const bool turned = inner < axis;
  const size_t rows = turned ? count : tensors.size(), columns = turned ? tensors.size() : count;
  std::vector<Tensor> all;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const Tensor& stack = tensors[turned ? j : i];
      all.push_back(astype(stack.node()->stacked->parts[turned ? i : j], stack.dtype()));
    }
  }
  const Tensor flat = stack(all, static_cast<std::int64_t>(std::min(inner, axis)));
  Shape shape = flat.shape();
  shape.back() = index(static_cast<std::int64_t>(rows));
  shape.push_back(index(static_cast<std::int64_t>(columns)));
  return reshape_to(flat, shape);
}

}  // namespace

Tensor concat(const std::vector<Tensor>& given, std::optional<std::int64_t> given_axis) {
  if (given.empty()) fail_value("concat", "takes one tensor or more; given none");
  const DType dtype = result_type("concat", given);
  std::vector<Tensor> tensors = given;
  if (!given_axis) {
    for (Tensor& tensor : tensors) tensor = reshape(tensor, {-1});
  }
  const size_t axis = normalize_axis("concat", given_axis.value_or(0), tensors[0].rank());
  Shape shape = tensors[0].shape();
  std::vector<Expr> starts;
  Expr total = index(0);
  for (const Tensor& tensor : tensors) {
    Shape own = tensor.shape();
    starts.push_back(total);
    if (own.size() == shape.size()) {
      total = total + own[axis];
      own[axis] = shape[axis];
    }
    if (!same_shape(own, shape)) {
      fail_value("concat", fmt::format("shapes agree but for axis {}: given {}", axis, describe(given)));
    }
  }
  shape[axis] = total;
  const auto element_of = [=](const Indices& i, const Expr& mask) {
    Expr value;
    for (size_t k = tensors.size(); k-- > 0;) {
      if (is_int(tensors[k].shape()[axis], 0)) continue;
      Indices own = i;
      own[axis] = i[axis] - starts[k];
      const bool first = k == 0, last = k + 1 == tensors.size();
      const Expr after = first ? nullptr : ge(i[axis], starts[k]);
      const Expr before = last ? nullptr : lt(i[axis], starts[k + 1]);
      const Expr inside = logical_and(after, before);
      const Expr element = convert(dtype, tensors[k].at(own, logical_and(mask, inside)));
      value = value && before ? select(before, element, value) : element;
    }
    return value ? value : constant(dtype, 0);
  };
  if (tensors.size() >= many_tensors)
    return compute(shape, [=](const Indices& i) { return element_of(i, nullptr); }, "concat");
  return view(shape, dtype, element_of, "concat");
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis) {
  if (tensors.empty()) fail_value("stack", "takes one tensor or more; given none");
  for (const Tensor& tensor : tensors) {
    if (!same_shape(tensor.shape(), tensors[0].shape())) {
      fail_value("stack", fmt::format("takes tensors of one shape: given {}", describe(tensors)));
    }
  }
  const size_t place = normalize_axis("stack", axis, tensors[0].rank() + 1);
  if (const std::optional<Tensor> flat = stack_of_stacks(tensors, place)) return *flat;
  std::vector<Tensor> expanded;
  for (const Tensor& tensor : tensors) expanded.push_back(expand_dims(tensor, {axis}));
  return stacked_along(concat(expanded, axis), tensors, place);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& extents, std::int64_t given_axis) {
  const size_t axis = normalize_axis("split", given_axis, x.rank());
  const std::int64_t total = constant_extent("split", x, axis);
  std::int64_t start = 0;
  std::vector<Tensor> parts;
  for (std::int64_t extent : extents) {
    if (extent < 0) fail_value("split", fmt::format("extents are not negative: given {}", extent));
    parts.push_back(part(x, axis, start, extent));
    start += extent;
  }
  if (start != total) {
    fail_value("split", fmt::format("the extents sum to {}; axis {} of {} has {}", start, axis, describe(x), total));
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t count, std::int64_t given_axis) {
  const size_t axis = normalize_axis("split", given_axis, x.rank());
  const std::int64_t total = constant_extent("split", x, axis);
  if (count <= 0 || total % count != 0) {
    fail_value("split", fmt::format("axis {} of {} does not split into {} equal parts", axis, describe(x), count));
  }
  return split(x, std::vector<std::int64_t>(static_cast<size_t>(count), total / count), given_axis);
}

std::vector<Tensor> unstack(const Tensor& x, std::int64_t given_axis) {
  const size_t axis = normalize_axis("unstack", given_axis, x.rank());
  std::vector<Tensor> parts;
  for (std::int64_t k = 0; k < constant_extent("unstack", x, axis); ++k) {
    std::vector<Subscript> subscripts(axis, Slice{});
    subscripts.push_back(k);
    parts.push_back(getitem(x, subscripts));
  }
  return parts;
}

Tensor pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& given, const Tensor& value) {
  std::vector<std::pair<std::int64_t, std::int64_t>> widths = given;
  if (widths.size() == 1) widths.resize(x.rank(), given[0]);
  if (widths.size() != x.rank()) {
    fail_value("pad", fmt::format("takes a pair of widths for each axis: given {} for {}", given.size(), describe(x)));
  }
  if (value.rank() != 0) fail_value("pad", fmt::format("takes a scalar value; given {}", describe(value)));
  Shape shape;
  for (size_t d = 0; d < widths.size(); ++d) {
    const auto [before, after] = widths[d];
    if (before < 0 || after < 0)
      fail_value("pad", fmt::format("widths are not negative: given ({}, {})", before, after));
    shape.push_back(x.shape()[d] + (before + after));
  }
  const DType dtype = x.dtype();
  // A bare 0 is no value of the bool kind, but false is meant.
  if (!(dtype.is_bool() && value.is_weak())) result_type("pad", std::vector<Tensor>{x, value});
  return view(
      shape, dtype,
      [=](const Indices& i, const Expr& mask) {
        Indices source = i;
        Expr inside;
        for (size_t d = 0; d < widths.size(); ++d) {
          source[d] = i[d] - widths[d].first;
          if (widths[d].first > 0) inside = logical_and(inside, ge(i[d], index(widths[d].first)));
          if (widths[d].second > 0) inside = logical_and(inside, lt(source[d], x.shape()[d]));
        }
        Expr element = x.at(source, logical_and(mask, inside));
        if (!inside) return element;
        return select(inside, element, convert(dtype, value.at({}, mask)));
      },
      "pad");
}

Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts,
            const std::optional<std::vector<std::int64_t>>& axes) {
  if (!axes) {
    if (shifts.size() != 1) fail_value("roll", fmt::format("takes one shift without axes; given {}", shifts.size()));
    return reshape_to(roll_axis(reshape(x, {-1}), shifts[0], 0), x.shape());
  }
  if (shifts.size() != axes->size()) {
    fail_value("roll", fmt::format("takes a shift for each axis: given {} for {}", shifts.size(), axes->size()));
  }
  Tensor rolled = x;
  const std::vector<size_t> along = normalize_axes("roll", *axes, x.rank());
  for (size_t k = 0; k < shifts.size(); ++k) rolled = roll_axis(rolled, shifts[k], along[k]);
  return rolled;
}

Tensor tril(const Tensor& x, std::int64_t k) {
  return triangle("tril", x, k, true);
}
Tensor triu(const Tensor& x, std::int64_t k) {
  return triangle("triu", x, k, false);
}

}  // namespace lathe::ops
