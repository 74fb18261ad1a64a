#include "schedule/primitives/parallel.h"

#include <fmt/format.h>

#include "ir/analysis/regions.h"
#include "schedule/primitives/loop_kind.h"

namespace lathe {

void parallel(Schedule& schedule, const LoopRef& loop, std::int64_t grain) {
  const Path path = path_to(schedule, loop);
  const Stmt& at = path.back();
  const For& node = *at.as<For>();
  const std::string application = fmt::format("parallel({}, {})", schedule.place(loop), grain);
  if (grain < 1) refuse(schedule, application, 1, "grain is at least 1", at, "cannot run in such tasks");
  const std::string alone = "loop is serial, and no loop around it or below it is parallel";
  if (node.for_kind != ForKind::serial) {
    refuse(schedule, application, 2, alone, at, "is " + std::string(to_string(node.for_kind)));
  }
  const auto check_other = [&](const Stmt& s) {
    const For* other = s.as<For>();
    if (other && other->for_kind == ForKind::parallel) refuse(schedule, application, 2, alone, s, "is parallel");
  };
  for (const Stmt& s : path) check_other(s);
  for_each_stmt(node.body, check_other);
  Annotations annotations = node.annotations;
  for (const Buffer& own : require_independent_iterations(schedule, application, 3, path))
    annotations[private_key(own)] = std::int64_t{1};
  annotations["parallel_grain"] = grain;
  schedule.commit(
      replace_last(path, For::make(node.variable, node.min, node.extent, ForKind::parallel, node.body, annotations)),
      application);
}

}  // namespace lathe
