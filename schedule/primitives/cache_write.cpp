#include "schedule/primitives/cache_write.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"
#include "schedule/rewrite.h"

namespace lathe {
BlockRef cache_write(Schedule& schedule, const BlockRef& block, const std::string& memory_space,
                     const std::optional<std::string>& buffer) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("cache_write({}, \"{}\"{})", block.name, memory_space,
                                              buffer ? fmt::format(", \"{}\"", *buffer) : "");
  const std::string whole =
      "block runs over its whole domain, each iter by a serial loop of its own, with no other block in those loops";
  if (const std::string reason = why_results_incomplete(path); !reason.empty())
    refuse(schedule, application, 1, whole, path.back(), reason);
  size_t own = path.size() - 1;
  while (own > 0 && path[own - 1].as<For>()) --own;
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    bool found = !node.f.bindings[i].as<Var>();
    for (size_t level = own; level < path.size(); ++level) {
      const For* loop = path[level].as<For>();
      found |= loop && Expr(loop->variable) == node.f.bindings[i];
    }
    if (!found) refuse(schedule, application, 1, whole, path[own], "holds a part of its loops, beside other blocks");
  }
  const std::string one =
      "block writes one buffer, or that of several which buffer names, at its space iters and ordered ones, each once, "
      "and is the only one to write it";
  const auto written = std::find_if(node.f.writes.begin(), node.f.writes.end(),
                                    [&](const Region& region) { return !buffer || region.buffer->name == *buffer; });
  if (!buffer && node.f.writes.size() != 1)
    refuse(schedule, application, 2, one, path.back(), "writes several regions");
  if (written == node.f.writes.end())
    refuse(schedule, application, 2, one, path.back(), fmt::format("writes no {}", *buffer));
  if (const std::string reason = why_not_pointwise(node, true); !reason.empty())
    refuse(schedule, application, 2, one, path.back(), reason);
  const Buffer target = written->buffer;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (other && other != &node && s != path.front() && writes(*other, target)) {
      refuse(schedule, application, 2, one, s, fmt::format("writes {} too", target->name));
    }
  });

  const Buffer local = BufferNode::make(schedule.unique_name(target->name + "_" + memory_space), target->dtype,
                                        target->shape, memory_space);
  const std::string copy = schedule.unique_name(block.name + "_copy");
  const Stmt writer = replace_buffers(path.back(), {{target.get(), local}});
  Path nest_path(path.begin() + static_cast<std::ptrdiff_t>(own), path.end());
  const Stmt nest = replace_last(nest_path, writer);
  Path outer(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(own) + 1);
  Stmt body = replace_last(outer, Seq::make({nest, copy_nest(copy, local, target)}));
  schedule.commit(add_allocation(body, local), application);
  return {copy};
}

}  // namespace lathe
