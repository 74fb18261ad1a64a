#include "schedule/auto/reduction_loops.h"

#include <algorithm>
#include <cstdlib>

#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {

void make_innermost(Schedule& schedule, const BlockRef& ref, const OwnLoop& found) {
  const Block& block = schedule.node(ref);
  std::vector<LoopRef> order = found.own;
  std::erase(order, found.loop);
  std::stable_partition(order.begin(), order.end(),
                        [&](const LoopRef& loop) { return !drives(block, IterKind::reduce, schedule.node(loop)); });
  order.push_back(found.loop);
  if (order != found.own) reorder(schedule, order);
}

void vectorize_copies(Schedule& schedule, LoopRef loop, std::int64_t vectors, std::int64_t lanes) {
  if (vectors > 1) {
    const auto [copies, inner] = split(schedule, loop, lanes);
    unroll(schedule, copies);
    loop = inner;
  }
  vectorize(schedule, loop);
}

bool walks_near(const Access& access, size_t iter) {
  const std::optional<std::int64_t>& stride = access.strides[iter];
  return stride && std::abs(*stride) <= (access.store ? 1 : most_shuffled_stride);
}

std::optional<size_t> near_axis(const Block& block, const std::vector<Fact>& facts) {
  const Accesses accesses = block_accesses(block);
  std::optional<size_t> best;
  std::int64_t longest = 1;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::int64_t extent = extent_estimate(block.f.iters[i].domain.extent, facts);
    if (block.f.iters[i].kind != IterKind::reduce || extent <= longest) continue;
    if (!std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) { return walks_near(access, i); }))
      continue;
    best = i;
    longest = extent;
  }
  return best;
}

}  // namespace lathe
