#include "schedule/primitives/vectorize.h"

#include <fmt/format.h>

#include "schedule/primitives/loop_kind.h"
#include "schedule/rewrite.h"

namespace lathe {

void vectorize(Schedule& schedule, const LoopRef& loop) {
  const Path path = path_to(schedule, loop);
  const For& node = *path.back().as<For>();
  const std::string application = fmt::format("vectorize({})", schedule.place(loop));
  require_constant_extent(schedule, application, 1, path.back());
  if (node.for_kind != ForKind::serial) {
    refuse(schedule, application, 2, "loop is serial, and no loop below it or around it is vectorized", path.back(),
           "is " + std::string(to_string(node.for_kind)));
  }
  const auto refuse_vector = [&](const Stmt& s) {
    refuse(schedule, application, 2, "loop is serial, and no loop below it or around it is vectorized", s,
           "is vectorized");
  };
  for (const Stmt& s : path) {
    if (const For* around = s.as<For>(); around && around->for_kind == ForKind::vectorized) refuse_vector(s);
  }
  for_each_stmt(node.body, [&](const Stmt& s) {
    const For* below = s.as<For>();
    if (below && below->for_kind == ForKind::vectorized) refuse_vector(s);
  });
  require_space_iters(schedule, application, 3, path.back());
  for_each_stmt(node.body, [&](const Stmt& s) {
    const For* below = s.as<For>();
    if (below && (uses_var(below->min, loop.variable.get()) || uses_var(below->extent, loop.variable.get()))) {
      refuse(schedule, application, 4, "no bound of a loop below uses loop", s, "has bounds that use it");
    }
  });
  require_lanes_apart(schedule, application, 5, path);
  schedule.commit(replace_last(path, with_kind(node, ForKind::vectorized)), application);
}

}  // namespace lathe
