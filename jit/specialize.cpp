#include "jit/specialize.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/visitor.h"

namespace lathe {

Func apply_layouts(const Func& func, std::span<const ArgumentLayout> layouts, std::vector<StrideParameter>* runtime) {
  std::vector<Param> params = func->params;
  std::vector<Param> stride_params;
  BufferMap map;
  int tensor = 0;
  for (Param& param : params) {
    const Buffer* found = std::get_if<Buffer>(&param);
    if (!found) continue;
    const Buffer buffer = *found;
    const ArgumentLayout& layout = layouts[tensor];
    if (layout.strides != 0 || layout.alignment != AlignmentClass::element) {
      std::vector<Expr> strides;
      if (layout.strides != 0) strides = strides_of(buffer);
      const std::int64_t step = stride_step(layout.strides);
      for (int d = 0; d < static_cast<int>(strides.size()); ++d) {
        switch (stride_class(layout.strides, d)) {
          case StrideClass::dense:
            if (step > 1) strides[d] = strides[d] * step;
            break;
          case StrideClass::zero:
            strides[d] = index(0);
            break;
          case StrideClass::unit:
            strides[d] = index(1);
            break;
          case StrideClass::runtime: {
            const VarRef stride = Var::make(fmt::format("{}_stride{}", buffer->name, d));
            strides[d] = stride;
            stride_params.emplace_back(stride);
            runtime->push_back({tensor, d});
          }
        }
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
  LATHE_CHECK(static_cast<size_t>(tensor) == layouts.size(), func->name);
  if (map.empty()) return func;
  params.insert(params.end(), stride_params.begin(), stride_params.end());
  return FuncNode::make(func->name, std::move(params), replace_buffers(func->body, map), func->facts, func->attrs,
                        func->stage);
}

}  // namespace lathe
