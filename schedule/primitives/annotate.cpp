#include "schedule/primitives/annotate.h"

#include <fmt/format.h>

#include "schedule/rewrite.h"

namespace lathe {

void annotate(Schedule& schedule, const LoopRef& loop, const std::string& key, std::int64_t value) {
  const Path path = path_to(schedule, loop);
  const For& node = *path.back().as<For>();
  const std::string application = fmt::format("annotate({}, \"{}\", {})", schedule.place(loop), key, value);
  if (key.empty()) refuse(schedule, application, 1, "key is not empty", path.back(), "cannot carry it");
  Annotations annotations = node.annotations;
  annotations[key] = value;
  schedule.commit(replace_last(path, For::make(node.variable, node.min, node.extent, node.for_kind, node.body,
                                               std::move(annotations), node.thread_axis)),
                  application);
}

}  // namespace lathe
