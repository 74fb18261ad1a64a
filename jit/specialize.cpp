#include "jit/specialize.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/visitor.h"
#include "jit/memory_order.h"

namespace lathe {

namespace {

/// The strides of `buffer`, a compact parameter, as `classes` know them; null where they come with each call.
std::vector<Expr> known_strides(const Buffer& buffer, StrideClasses classes) {
  std::vector<Expr> strides = strides_of(buffer);
  const std::int64_t step = stride_step(classes);
  const int last = static_cast<int>(strides.size()) - 1;
  for (int d = 0; d < static_cast<int>(strides.size()); ++d) {
    switch (stride_class(classes, d)) {
      case StrideClass::dense:
        if (step != 1) strides[d] = strides[d] * (d == last ? step : std::abs(step));
        break;
      case StrideClass::zero:
        strides[d] = index(0);
        break;
      case StrideClass::unit:
        strides[d] = index(1);
        break;
      case StrideClass::runtime:
        strides[d] = nullptr;
    }
  }
  return strides;
}

/// The Func over arrays that are row-major, where arguments that are dense lie in another order.
Func over_rows(const Func& traced, std::span<const ArgumentLayout> layouts) {
  const std::vector<Buffer> buffers = buffer_params(traced);
  const std::vector<bool> written = written_params(traced);
  std::vector<StrideClasses> inputs;
  for (size_t i = 0; i < layouts.size() && !written[i]; ++i) inputs.push_back(layouts[i].strides);
  MemoryOrders folded, orders = memory_orders(traced, inputs, &folded);
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (is_permuted(layouts[i].strides)) {
      orders[buffers[i].get()] = layouts[i].strides;
    } else {
      orders.erase(buffers[i].get());
    }
  }
  follow_outputs(traced, &orders);
  const Func in_order = fold_in_order(traced, folded, &orders);
  return in_memory_order(in_order, orders);
}

}  // namespace

Func apply_layouts(const Func& traced, std::span<const ArgumentLayout> layouts, std::vector<StrideParameter>* runtime) {
  LATHE_CHECK(layouts.size() == buffer_params(traced).size(), traced->name);
  Func func = over_rows(traced, layouts);
  std::vector<Param> params = func->params;
  std::vector<Param> stride_params;
  BufferMap map;
  int tensor = 0;
  for (Param& param : params) {
    const Buffer* found = std::get_if<Buffer>(&param);
    if (!found) continue;
    const Buffer buffer = *found;
    const ArgumentLayout& layout = layouts[tensor];
    const bool row_major = layout.strides == 0 || is_permuted(layout.strides);
    if (!row_major || layout.alignment != AlignmentClass::element) {
      std::vector<Expr> strides;
      if (!row_major) strides = known_strides(buffer, layout.strides);
      for (int d = 0; d < static_cast<int>(strides.size()); ++d) {
        if (strides[d]) continue;
        const VarRef stride = Var::make(fmt::format("{}_stride{}", buffer->name, d));
        strides[d] = stride;
        stride_params.emplace_back(stride);
        runtime->push_back({tensor, d});
      }
      const int alignment = layout.alignment == AlignmentClass::none   ? 1
                            : layout.alignment == AlignmentClass::line ? line_bytes
                                                                       : buffer->alignment;
      map[buffer.get()] = BufferNode::make(buffer->name, buffer->dtype, buffer->shape, buffer->space,
                                           std::move(strides), buffer->offset, alignment, buffer->view_of);
      param = map[buffer.get()];
    }
    ++tensor;
  }
  if (map.empty()) return func;
  params.insert(params.end(), stride_params.begin(), stride_params.end());
  return FuncNode::make(func->name, std::move(params), replace_buffers(func->body, map), func->facts, func->attrs,
                        func->stage);
}

}  // namespace lathe
