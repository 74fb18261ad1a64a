#include "schedule/auto/check_ahead.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {

bool check_ahead(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const std::vector<BlockRef> readers = schedule.consumers(ref);
  if (!asserts(schedule.node(ref)) || readers.size() != 1) return false;
  const BlockRef& reader = readers[0];
  const Block& block = schedule.node(reader);
  if (context.scheduled.contains(reader.name) || !only_space(block) || has_blocks(block) || !looks_up(context, block))
    return false;
  vectorize_block(context, reader);
  const std::vector<LoopRef> loops = schedule.loops(reader);
  size_t around = loops.size();
  while (around > 0 && schedule.node(loops[around - 1]).for_kind != ForKind::serial) --around;
  if (around == 0 || around == loops.size()) return false;
  return attempt(context, fmt::format("check {} ahead of each vector of {}", ref.name, reader.name), [&] {
    compute_at(schedule, ref, loops[around - 1]);
    // Of axes that were joined a vector crosses rows, for which all of them would be checked.
    const std::int64_t lanes = extent_estimate(schedule.node(loops[around]).extent);
    if (instances_within(schedule, ref) > 2 * lanes)
      throw Refusal("check_ahead", 1, "more is checked than a vector looks up");
    vectorize(schedule, schedule.loops(ref).back());
    context.scheduled.insert(ref.name);
  });
}

}  // namespace lathe
