#include "ir/buffer.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/expr.h"
#include "ir/storage.h"

namespace lathe {

Buffer BufferNode::make(std::string name, DType dtype, std::vector<Expr> shape, std::string space,
                        std::vector<Expr> strides, Expr offset, int alignment, std::optional<Region> view_of) {
  const auto check = [&](bool condition, const char* what) {
    if (!condition) throw InputError(Mistake::value, fmt::format("buffer {}: {}", name, what));
  };
  check(dtype.is_scalar(), "its dtype has lanes");
  check(strides.empty() || strides.size() == shape.size(), "it needs one stride a dimension, or none");
  for (const Expr& extent : shape) check(extent && extent->dtype == i64, "an extent is not i64");
  for (const Expr& stride : strides) check(stride && stride->dtype == i64, "a stride is not i64");
  check(!offset || offset->dtype == i64, "its offset is not i64");
  auto* node = new BufferNode;
  node->name = std::move(name);
  node->dtype = dtype;
  node->shape = std::move(shape);
  node->strides = std::move(strides);
  node->offset = std::move(offset);
  node->space = std::move(space);
  node->alignment = alignment;
  node->view_of = std::move(view_of);
  return Buffer(node);
}

std::vector<Expr> strides_of(const Buffer& buffer) {
  if (!buffer->strides.empty()) return buffer->strides;
  std::vector<Expr> strides(buffer->rank());
  Expr stride = index(1);
  for (size_t i = buffer->rank(); i-- > 0;) {
    strides[i] = stride;
    stride = buffer->shape[i] * stride;
  }
  return strides;
}

Expr flat_index(const Buffer& buffer, const std::vector<Expr>& indices) {
  LATHE_CHECK(indices.size() == buffer->rank(), buffer->name);
  const std::vector<Expr> strides = strides_of(buffer);
  Expr sum = buffer->offset ? buffer->offset : index(0);
  int lanes = 1;
  for (const Expr& i : indices) lanes = std::max<int>(lanes, i->dtype.lanes);
  sum = Broadcast::make(sum, lanes);
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr i = indices[d]->dtype.lanes == lanes ? indices[d] : Broadcast::make(indices[d], lanes);
    const Expr term = is_int(strides[d], 1) ? i : i * Broadcast::make(strides[d], lanes);
    sum = is_int(sum, 0) ? term : sum + term;
  }
  return sum;
}

Expr element_count(const Buffer& buffer) {
  Expr count = index(1);
  for (const Expr& extent : buffer->shape) count = count * extent;
  return count;
}

std::optional<std::int64_t> constant_elements(const Buffer& buffer) {
  std::int64_t elements = 1;
  for (const Expr& extent : buffer->shape) {
    const std::int64_t* value = as_int(extent);
    if (!value) return std::nullopt;
    elements *= *value;
  }
  return elements;
}

std::optional<ElementSpan> constant_span(const Buffer& buffer) {
  const std::int64_t* offset = buffer->offset ? as_int(buffer->offset) : nullptr;
  if (buffer->offset && (!offset || *offset < 0)) return std::nullopt;
  const std::int64_t first = offset ? *offset : 0;
  std::int64_t last = first;
  const std::vector<Expr> strides = strides_of(buffer);
  for (size_t d = 0; d < buffer->rank(); ++d) {
    const std::int64_t *extent = as_int(buffer->shape[d]), *stride = as_int(strides[d]);
    std::int64_t reach;
    if (!extent || !stride || *extent < 1 || *stride < 0 || __builtin_mul_overflow(*extent - 1, *stride, &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  return last == INT64_MAX ? std::nullopt : std::optional(ElementSpan{first, last + 1});
}

Expr load(const Buffer& buffer, std::vector<Expr> indices, Expr mask) {
  return Load::make(buffer, std::move(indices), std::move(mask));
}

Region full_region(const Buffer& buffer) {
  Region region;
  region.buffer = buffer;
  for (const Expr& extent : buffer->shape) region.ranges.push_back({index(0), extent});
  return region;
}

Region point_region(const Buffer& buffer, const std::vector<Expr>& indices) {
  Region region;
  region.buffer = buffer;
  for (const Expr& i : indices) region.ranges.push_back({i, index(1)});
  return region;
}

const BufferNode* storage_of(const BufferNode* buffer) {
  while (const auto& view = buffer->view_of) buffer = view->buffer.get();
  return buffer;
}

}  // namespace lathe
