#include "schedule/auto/share_lines.h"

#include <fmt/format.h>

#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"

namespace lathe {

void share_lines(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                 const std::vector<LoopRef>& loops, const std::vector<size_t>& iters) {
  Schedule& schedule = context.schedule;
  if (context.device.caches.empty() || loops.size() < 2) return;
  for (const Access& access : accesses) {
    const std::int64_t bytes = access.buffer->dtype.bytes(), line = context.device.caches.front().line_bytes / bytes;
    const auto& inner = access.strides[iters.back()];
    if (access.store || !inner || std::abs(*inner) < line ||
        bytes * estimated_elements(access.buffer) <= static_cast<double>(own_cache_bytes(context.device)))
      continue;
    for (size_t i = 0; i + 1 < loops.size(); ++i) {
      const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
      if (access.strides[iters[i]] != 1 || !extent || *extent < line) continue;
      attempt(context, fmt::format("share lines of {} between {} rows of {}", access.buffer->name, line, ref.name),
              [&] {
                std::vector<LoopRef> order = loops;
                const auto [rows, row] = split(schedule, order[i], line);
                order[i] = rows;
                order.push_back(row);
                reorder(schedule, order);
              });
      return;
    }
  }
}

}  // namespace lathe
