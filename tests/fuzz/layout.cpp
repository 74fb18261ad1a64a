#include "tests/fuzz/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

namespace lathe::testing {
namespace {

using Strides = LayoutPlan::Strides;

Extents compact_strides(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

Extents strides_of_shape(const LayoutPlan& plan, const Extents& shape) {
  Extents strides(shape.size(), 0);
  std::int64_t stride = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    const size_t d = plan.order[k];
    const LayoutPlan::Dimension& dimension = plan.dimensions[d];
    stride *= dimension.spread;
    strides[d] = stride * dimension.direction;
    stride = stride * std::max<std::int64_t>(shape[d], 1) + dimension.gap;
  }
  return strides;
}

/// The shape that holds those of all runs.
Extents largest(const std::vector<Extents>& shapes) {
  Extents result = shapes.front();
  for (const Extents& shape : shapes) {
    for (size_t d = 0; d < shape.size(); ++d) result[d] = std::max(result[d], shape[d]);
  }
  return result;
}

}  // namespace

LayoutPlan choose_layout(Random& random, bool is_input, DType dtype, size_t rank) {
  LayoutPlan plan;
  plan.order.resize(rank);
  std::iota(plan.order.begin(), plan.order.end(), 0);
  plan.dimensions.resize(rank);
  const auto bytes = static_cast<int>(dtype.bytes());
  if (random.chance(12)) {
    plan.element_aligned = bytes == 1 || random.chance(60);
    plan.misalignment = static_cast<int>(random.between(1, 64 / bytes - 1)) * bytes;
    if (!plan.element_aligned) plan.misalignment += static_cast<int>(random.between(1, bytes - 1));
  }
  if (random.chance(55)) return plan;
  plan.strides = random.pick(std::vector<Strides>{Strides::constant, Strides::runtime, Strides::classes});
  if (random.chance(40)) {
    for (size_t d = rank; d-- > 1;)
      std::swap(plan.order[d], plan.order[static_cast<size_t>(random.between(0, static_cast<std::int64_t>(d)))]);
  }
  for (LayoutPlan::Dimension& dimension : plan.dimensions) {
    if (random.chance(25)) dimension.spread = 2;
    if (random.chance(20)) dimension.gap = random.between(1, 3);
    if (random.chance(15)) dimension.direction = -1;
    if (is_input && random.chance(12)) dimension.direction = 0;
  }
  if (random.chance(25)) plan.offset = random.between(1, 40);
  return plan;
}

std::vector<std::int64_t> strides_for(const LayoutPlan& plan, const std::vector<Extents>& shapes, size_t run) {
  return strides_of_shape(plan, plan.strides == Strides::constant ? largest(shapes) : shapes[run]);
}

Buffer lay_out(const Buffer& buffer, const LayoutPlan& plan, const std::vector<Extents>& shapes,
               std::vector<VarRef>* variables) {
  variables->assign(buffer->rank(), nullptr);
  std::vector<Expr> strides;
  if (plan.strides != Strides::compact) strides = strides_of(buffer);
  /// Does the dimension have in every run the stride that `expected` gives, or no two elements?
  const auto always = [&](size_t d, const std::function<std::int64_t(const Extents& shape)>& expected) {
    for (size_t run = 0; run < shapes.size(); ++run) {
      if (shapes[run][d] > 1 && strides_for(plan, shapes, run)[d] != expected(shapes[run])) return false;
    }
    return true;
  };
  for (size_t d = 0; d < strides.size(); ++d) {
    if (plan.strides == Strides::constant) {
      strides[d] = index(strides_for(plan, shapes, 0)[d]);
      continue;
    }
    if (plan.strides == Strides::classes) {
      if (always(d, [d](const Extents& shape) { return compact_strides(shape)[d]; })) continue;
      std::optional<std::int64_t> known;
      for (const std::int64_t stride : {0, 1}) {
        if (always(d, [stride](const Extents&) { return stride; })) known = stride;
      }
      if (known) {
        strides[d] = index(*known);
        continue;
      }
    }
    (*variables)[d] = Var::make(fmt::format("{}_stride{}", buffer->name, d));
    strides[d] = (*variables)[d];
  }
  return BufferNode::make(buffer->name, buffer->dtype, buffer->shape, buffer->space, std::move(strides),
                          plan.offset ? index(plan.offset) : Expr(), plan.element_aligned ? 0 : 1);
}

}  // namespace lathe::testing
