#include "schedule/auto/ask_for_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/stream_outputs.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr std::int64_t most_steps = 512, most_near = 128;
/// Results that fill more of the last cache are on their way to memory, and slow multiply-adds wait for them too
/// (measured on Zen 4, random contractions: 12 MB of results 0.81 to 0.85 of the time, 2 to 5 MB up to 1.15).
constexpr double part_of_last = 0.25;
/// Steps between two times at which a tile asks: what that takes is then little beside them. Multiply-adds that leave
/// slots have each step ask.
std::int64_t least_between(const Device& device) {
  return multiplies_lines(device) ? 4 : 1;
}

/// Bytes of all that two blocks read and write, but for sums in registers.
double touched_bytes(const Schedule& schedule, const BlockRef& reduction, const BlockRef& reader) {
  std::vector<Buffer> seen;
  double bytes = 0;
  for (const BlockRef& ref : {reduction, reader}) {
    for (const Access& access : block_accesses(schedule.node(ref))) {
      const Buffer& buffer = access.buffer;
      if (buffer->space == space::registers || std::find(seen.begin(), seen.end(), buffer) != seen.end()) continue;
      seen.push_back(buffer);
      bytes += estimated_elements(buffer, schedule.func()->facts) * buffer->dtype.bytes();
    }
  }
  return bytes;
}

/// The most steps of a tile whose stores take some of their time; 0 where they wait for nothing.
std::int64_t steps_that_matter(const RuleContext& context, const BlockRef& reduction, const BlockRef& reader) {
  const Schedule& schedule = context.schedule;
  const Buffer& result = schedule.node(reader).f.writes[0].buffer;
  const bool filled = multiplies_lines(context.device);
  if (context.device.caches.empty() || (filled && is_allocated(schedule.func(), result)) ||
      may_stream(result, context.device))
    return 0;
  const auto near = static_cast<double>(own_cache_bytes(context.device)),
             last = static_cast<double>(context.device.caches.back().bytes);
  const double bytes = estimated_elements(result, schedule.func()->facts) * result->dtype.bytes();
  if (bytes > (filled ? near : std::max(near, last * part_of_last))) return most_steps;
  return filled && touched_bytes(schedule, reduction, reader) > near ? most_near : 0;
}

}  // namespace

void ask_for_results(RuleContext& context, const BlockRef& reduction, const BlockRef& reader, std::int64_t rows,
                     std::vector<LoopRef>& steps) {
  const std::int64_t most = steps_that_matter(context, reduction, reader);
  if (most == 0) return;
  Schedule& schedule = context.schedule;
  std::vector<std::int64_t> counts;
  std::int64_t all = 1;
  for (const LoopRef& loop : steps) {
    const std::int64_t* count = as_int(schedule.node(loop).extent);
    if (!count) return;
    counts.push_back(*count);
    all *= *count;
  }
  const auto goes_on = std::find_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 1; });
  if (all > most || goes_on == counts.end()) return;
  const auto first = steps.begin() + (goes_on - counts.begin());
  LoopRef asking = *first;
  std::int64_t within = all / *goes_on;
  if (within == 1) {
    const auto times = greatest_divisor(all, 2, rows + rows / 2);
    if (!times) return;
    within = all / *times;
    if (within < least_between(context.device)) return;
    if (within > 1) {
      const auto [outer, inner] = split(schedule, *first, within);
      asking = *first = outer;
      steps.insert(first + 1, inner);
    }
  } else if (within < least_between(context.device)) {
    return;
  }
  annotate(schedule, asking, "prefetch_stores", 1);
  context.note(
      fmt::format("have the steps of {} ask for {}", reduction.name, schedule.node(reader).f.writes[0].buffer->name));
}

}  // namespace lathe
