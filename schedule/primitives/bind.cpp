#include "schedule/primitives/bind.h"

#include <fmt/format.h>

#include "ir/analysis/regions.h"
#include "schedule/primitives/loop_kind.h"

namespace lathe {

void bind_loop(Schedule& schedule, const LoopRef& loop, const std::string& thread_axis) {
  const Path path = path_to(schedule, loop);
  const For& node = *path.back().as<For>();
  const std::string application = fmt::format("bind({}, \"{}\")", schedule.place(loop), thread_axis);
  const std::string serial = "loop is serial, and thread_axis has a name";
  if (node.for_kind != ForKind::serial) {
    refuse(schedule, application, 1, serial, path.back(), "is " + std::string(to_string(node.for_kind)));
  }
  if (thread_axis.empty() || thread_axis.find('"') != std::string::npos) {
    refuse(schedule, application, 1, serial, path.back(), "cannot run along it");
  }
  const auto check_other = [&](const Stmt& s) {
    const For* other = s.as<For>();
    if (!other || other->for_kind != ForKind::bound || other->thread_axis != thread_axis) return;
    refuse(schedule, application, 2, "no loop around it or below it is bound to that axis", s, "is bound to it");
  };
  for (const Stmt& s : path) check_other(s);
  for_each_stmt(node.body, check_other);
  Annotations annotations = node.annotations;
  for (const Buffer& own : require_independent_iterations(schedule, application, 3, path))
    annotations[private_key(own)] = std::int64_t{1};
  schedule.commit(replace_last(path, For::make(node.variable, node.min, node.extent, ForKind::bound, node.body,
                                               std::move(annotations), thread_axis)),
                  application);
}

}  // namespace lathe
