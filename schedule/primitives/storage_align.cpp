#include "schedule/primitives/storage_align.h"

#include <fmt/format.h>

#include "ir/analysis/simplify.h"
#include "schedule/rewrite.h"

namespace lathe {

void storage_align(Schedule& schedule, const BlockRef& block, const std::string& buffer, std::int64_t dimension,
                   std::int64_t factor, std::int64_t offset) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application =
      fmt::format("storage_align({}, \"{}\", {}, {}, {})", block.name, buffer, dimension, factor, offset);
  const std::string allocation = "block writes an allocation of that name, in memory that has addresses";
  Buffer old;
  for (const Region& region : node.f.writes) {
    if (region.buffer->name == buffer) old = region.buffer;
  }
  if (!old) refuse(schedule, application, 1, allocation, path.back(), fmt::format("writes no {}", buffer));
  if (!is_allocated(schedule.func(), old) || old->view_of) {
    refuse(schedule, application, 1, allocation, path.back(), fmt::format("writes {}, which is no allocation", buffer));
  }
  if (old->space == space::registers) {
    refuse(schedule, application, 1, allocation, path.back(),
           fmt::format("writes {}, which lies in registers", buffer));
  }
  const auto rank = static_cast<std::int64_t>(old->rank());
  if (dimension < 0 || dimension + 1 >= rank) {
    refuse(schedule, application, 2, "dimension is one of the buffer's, and not the last, which stays contiguous",
           path.back(), fmt::format("writes {}, which has {} dimensions", buffer, rank));
  }
  if (factor < 1 || offset < 0 || offset >= factor) {
    refuse(schedule, application, 3, "factor is at least 1, and offset lies in [0, factor)", path.back(),
           fmt::format("cannot have {} aligned so", buffer));
  }
  std::vector<Expr> strides = strides_of(old);
  const Bounds bounds(schedule.func());
  for (auto d = static_cast<size_t>(dimension) + 1; d-- > 0;) {
    Expr stride = strides[d + 1] * old->shape[d + 1];
    if (d == static_cast<size_t>(dimension)) stride = stride + floor_mod(index(offset) - stride, index(factor));
    strides[d] = simplify(stride, bounds);
  }
  const Buffer aligned = BufferNode::make(old->name, old->dtype, old->shape, old->space, strides, old->offset,
                                          old->alignment, old->view_of);
  schedule.commit(replace_declared_buffers(schedule.func()->body, {{old.get(), aligned}}), application);
}

}  // namespace lathe
