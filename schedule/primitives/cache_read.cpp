#include "schedule/primitives/cache_read.h"

#include <fmt/format.h>

#include "schedule/copy_block.h"
#include "schedule/rewrite.h"

namespace lathe {

BlockRef cache_read(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                    const std::string& memory_space) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("cache_read({}, \"{}\", \"{}\")", block.name, buffer, memory_space);
  const std::string loads = "block reads a buffer of that name, by Loads alone, and does not write it";
  Buffer source;
  for (const Region& region : node.f.reads) {
    if (region.buffer->name == buffer) source = region.buffer;
  }
  if (!source) refuse(schedule, application, 1, loads, path.back(), fmt::format("reads no {}", buffer));
  if (writes(node, source)) refuse(schedule, application, 1, loads, path.back(), fmt::format("writes {}", buffer));
  bool address = false;
  for_each_expr(node.f.body, [&](const Expr& e) {
    const AddressOf* taken = e.as<AddressOf>();
    address |= taken && taken->buffer == source;
  });
  if (address) refuse(schedule, application, 1, loads, path.back(), fmt::format("takes the address of {}", buffer));

  const Buffer cache = BufferNode::make(schedule.unique_name(source->name + "_" + memory_space), source->dtype,
                                        source->shape, memory_space);
  const std::string name = schedule.unique_name(source->name + "_copy");
  const Stmt reader = replace_buffers(path.back(), {{source.get(), cache}});
  const Stmt body = copied_before(schedule, application, 2, path, source, copy_nest(name, source, cache), reader);
  require_written(schedule, application, 3, path, source, body);
  schedule.commit(add_allocation(body, cache), application);
  return {name};
}

}  // namespace lathe
