#include "schedule/auto/merge_duplicates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/structural.h"
#include "schedule/primitives/merge_equal.h"
#include "schedule/rewrite.h"

namespace lathe {

namespace {

/// Do they compute the same, wherever their loops stand?
bool alike(const Block& a, const Block& b) {
  const Buffer &first = a.f.writes[0].buffer, &second = b.f.writes[0].buffer;
  if (a.f.iters.size() != b.f.iters.size() || a.f.reducer.has_value() != b.f.reducer.has_value() ||
      first->dtype != second->dtype || first->rank() != second->rank())
    return false;
  const auto loose = [](const Block& block) {
    return with_fields(block, [](Block::Fields& f) {
      f.name.clear();
      std::fill(f.bindings.begin(), f.bindings.end(), index(0));
    });
  };
  return equal(loose(a), replace_buffers(loose(b), {{second.get(), first}}));
}

}  // namespace

// Only blocks that read the same buffers can be equal, so each is compared with few.
void merge_duplicates(RuleContext& context) {
  Schedule& schedule = context.schedule;
  std::map<std::vector<const BufferNode*>, std::vector<BlockRef>> known;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block) || block.f.writes.size() != 1 || is_sealed(block) || fusion_wish(block) == FusionWish::apart)
      continue;
    std::vector<const BufferNode*> inputs;
    for (const Region& read : block.f.reads)
      if (read.buffer != block.f.writes[0].buffer) inputs.push_back(read.buffer.get());
    std::vector<BlockRef>& others = known[inputs];
    bool merged = false;
    // What callers see stays: others may read it.
    const bool kept = !is_allocated(schedule.func(), block.f.writes[0].buffer);
    for (size_t i = 0; i < others.size() && !merged && !kept; ++i) {
      merged = alike(schedule.node(others[i]), block) &&
               attempt(context, fmt::format("merge {} with {}, which computes the same", ref.name, others[i].name),
                       [&] { merge_equal(schedule, ref, others[i]); });
    }
    if (!merged) others.push_back(ref);
  }
}

}  // namespace lathe
