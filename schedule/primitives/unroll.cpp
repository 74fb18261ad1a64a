#include "schedule/primitives/unroll.h"

#include <fmt/format.h>

#include "schedule/primitives/loop_kind.h"

namespace lathe {

void unroll(Schedule& schedule, const LoopRef& loop) {
  const Path path = path_to(schedule, loop);
  const For& node = *path.back().as<For>();
  const std::string application = fmt::format("unroll({})", schedule.place(loop));
  require_constant_extent(schedule, application, 1, path.back());
  if (node.for_kind != ForKind::serial) {
    refuse(schedule, application, 2, "loop is serial", path.back(), "is " + std::string(to_string(node.for_kind)));
  }
  schedule.commit(replace_last(path, with_kind(node, ForKind::unrolled)), application);
}

}  // namespace lathe
