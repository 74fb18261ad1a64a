#include "schedule/primitives/set_space.h"

#include <fmt/format.h>

#include "schedule/rewrite.h"

namespace lathe {

void set_space(Schedule& schedule, const BlockRef& block, const std::string& memory_space) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("set_space({}, \"{}\")", block.name, memory_space);
  BufferMap map;
  for (const Region& region : node.f.writes) {
    const Buffer& old = region.buffer;
    if (!is_allocated(schedule.func(), old)) {
      refuse(schedule, application, 1, "each is an allocation", path.back(),
             fmt::format("writes {}, which is none", old->name));
    }
    map[old.get()] = BufferNode::make(old->name, old->dtype, old->shape, memory_space, old->strides, old->offset,
                                      old->alignment, old->view_of);
  }
  schedule.commit(replace_declared_buffers(schedule.func()->body, map), application);
}

}  // namespace lathe
