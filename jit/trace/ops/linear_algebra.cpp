#include "jit/trace/ops/linear_algebra.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/reduction.h"
#include "ir/visitor.h"
#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/contraction.h"
#include "jit/trace/ops/view_shape.h"
#include "jit/trace/promotion.h"
#include "jit/trace/tensor_node.h"

namespace lathe::ops {

Tensor as_operand(const std::string& name, const Tensor& x) {
  const size_t rank = x.rank();
  if (x.node()->kind != TensorKind::view || x.is_expression()) return x;
  int chosen = 0;
  size_t along = rank;  // the axis that lies contiguous in what is chosen among
  {
    Listener listener;  // what is read here is not read by the kernel
    Indices places;
    for (size_t d = 0; d < rank; ++d) places.emplace_back(Var::make(fmt::format("i{}", d)));
    for_each_expr(x.at(places), [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load || !load->mask) return;
      for (size_t d = 0; d < rank && along == rank; ++d) {
        if (uses_var(load->indices.back(), places[d].as<Var>())) along = d;
      }
      chosen += along < rank;
    });
  }
  if (chosen < 2) return x;
  std::vector<std::int64_t> order, back(rank);
  for (size_t d = 0; d < rank; ++d) {
    if (d != along) order.push_back(static_cast<std::int64_t>(d));
  }
  order.push_back(static_cast<std::int64_t>(along));
  for (size_t d = 0; d < rank; ++d) back[static_cast<size_t>(order[d])] = static_cast<std::int64_t>(d);
  const Tensor turned = permute_dims(x, order);
  return permute_dims(compute(turned.shape(), [&](const Indices& i) { return turned.at(i); }, name + ".operand"), back);
}

Tensor contract(const std::string& name, const Tensor& a, const Tensor& b, const Shape& result, const Shape& folded,
                const ElementAt& a_at, const ElementAt& b_at) {
  const DType common = result_type(name, std::array{a, b}, accepts_number);
  const DType arithmetic = arithmetic_type(common);
  const auto element = [&](const Expr& e) { return convert(arithmetic, convert(common, e)); };
  const Tensor product = compute(
      result,
      [&](const Indices& i) {
        return reduce(simple_reducer(BinaryOp::add, arithmetic), folded.empty() ? Shape{index(1)} : folded,
                      [&](const Indices& r) { return element(a_at(i, r)) * element(b_at(i, r)); });
      },
      name);
  return round_result(product, common);
}

Tensor matmul(const Tensor& left, const Tensor& right) {
  const Tensor a = as_operand("matmul", left), b = as_operand("matmul", right);
  const std::array operands{a, b};
  result_type("matmul", operands, accepts_number);
  if (a.rank() == 0 || b.rank() == 0) {
    fail_value("matmul", fmt::format("takes one axis or more: given {}", describe(operands)));
  }
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const Expr depth = a.shape().back();
  const Expr& other_depth = column ? b.shape()[0] : b.shape()[b.rank() - 2];
  if (!same_extent(depth, other_depth)) {
    fail_value(
        "matmul",
        fmt::format("given {}; expected the last axis of the left and the {} of the right to agree, but "
                    "they have {} and {}",
                    describe(operands), column ? "axis" : "last but one", describe(depth), describe(other_depth)));
  }
  const auto batch_of = [](const Tensor& x) {
    return Shape(x.shape().begin(), x.shape().end() - static_cast<std::ptrdiff_t>(std::min<size_t>(x.rank(), 2)));
  };
  const std::array<Shape, 2> batches{batch_of(a), batch_of(b)};
  Shape shape = broadcast_shapes(
      "matmul", batches,
      describe(operands) + " (their batch axes: " + describe(batches[0]) + " and " + describe(batches[1]) + ")");
  const size_t batch_rank = shape.size();
  if (!row) shape.push_back(a.shape()[a.rank() - 2]);
  if (!column) shape.push_back(b.shape().back());

  // The operand's own indices: its batch, broadcast, then its two (or one) matrix indices.
  const auto batch_indices = [=](const Shape& batch, const Indices& i) {
    Indices own(i.begin() + static_cast<std::ptrdiff_t>(batch_rank - batch.size()),
                i.begin() + static_cast<std::ptrdiff_t>(batch_rank));
    for (size_t d = 0; d < batch.size(); ++d) {
      if (is_int(batch[d], 1)) own[d] = index(0);
    }
    return own;
  };
  return contract(
      "matmul", a, b, shape, {depth},
      [&](const Indices& i, const Indices& r) {
        Indices own = batch_indices(batches[0], i);
        if (!row) own.push_back(i[batch_rank]);
        own.push_back(r[0]);
        return a.at(own);
      },
      [&](const Indices& i, const Indices& r) {
        Indices own = batch_indices(batches[1], i);
        own.push_back(r[0]);
        if (!column) own.push_back(i.back());
        return b.at(own);
      });
}

Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t axis) {
  const std::array operands{a, b};
  result_type("vecdot", operands, accepts_number);
  const size_t a_axis = normalize_axis("vecdot", axis, a.rank()), b_axis = normalize_axis("vecdot", axis, b.rank());
  if (!same_extent(a.shape()[a_axis], b.shape()[b_axis])) {
    fail_value("vecdot", fmt::format("given {}; expected equal extents of axis {}", describe(operands), axis));
  }
  const Tensor left = moveaxis(a, axis, -1), right = moveaxis(b, axis, -1);
  const auto rest = [](const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 1); };
  const std::array<Shape, 2> rests{rest(left), rest(right)};
  const auto element = [](const Tensor& x, const Indices& i, const Indices& r) {
    Indices all = i;
    all.push_back(r[0]);
    return at_broadcast(x, all);
  };
  return contract(
      "vecdot", a, b, broadcast_shapes("vecdot", rests, describe(operands)), {left.shape().back()},
      [&](const Indices& i, const Indices& r) { return element(left, i, r); },
      [&](const Indices& i, const Indices& r) { return element(right, i, r); });
}

Tensor outer(const Tensor& a, const Tensor& b) {
  const std::array operands{a, b};
  if (a.rank() != 1 || b.rank() != 1)
    fail_value("outer", fmt::format("takes 1-d tensors: given {}", describe(operands)));
  const DType common = result_type("outer", operands, accepts_number);
  const DType arithmetic = arithmetic_type(common);
  return compute_rounded(
      {a.shape()[0], b.shape()[0]}, common,
      [&](const Indices& i) {
        const Expr left = convert(arithmetic, convert(common, a.at({i[0]})));
        return left * convert(arithmetic, convert(common, b.at({i[1]})));
      },
      "outer");
}

}  // namespace lathe::ops
