#include "schedule/auto/memory_walk.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {

Expr walk_of(const Block& block, const Access& access) {
  Expr element = index(0);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::optional<std::int64_t>& stride = access.strides[i];
    if (!stride) return {};
    if (*stride != 0) element = element + block.f.bindings[i] * *stride;
  }
  return simplify(element);
}

namespace {

/// Of loops each of whose iterations goes on where the one before ended, or up to `reach` of it earlier.
std::int64_t bytes_walked(const Schedule& schedule, const BlockRef& ref, const Access& access, double reach) {
  const std::vector<LoopRef> loops = schedule.loops(ref);
  const Expr walk = walk_of(schedule.node(ref), access);
  if (!walk) return 0;
  std::int64_t run = 1;
  bool vectors = false;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    const For& node = schedule.node(*loop);
    const std::int64_t* extent = as_int(node.extent);
    const auto linear = split_linear(walk, loop->variable);
    if (!extent || !linear || linear->first > run) break;
    if (static_cast<double>(linear->first) < static_cast<double>(run) * (1 - reach)) break;
    run = linear->first * *extent;
    vectors |= node.for_kind == ForKind::vectorized;
  }
  return vectors ? run * access.buffer->dtype.bytes() : 0;
}

}  // namespace

std::int64_t bytes_side_by_side(const Schedule& schedule, const BlockRef& ref, const Access& access) {
  return bytes_walked(schedule, ref, access, 0);
}

std::int64_t bytes_row_by_row(const Schedule& schedule, const BlockRef& ref, const Access& access) {
  return bytes_walked(schedule, ref, access, 0.5);
}

bool read_before(const Schedule& schedule, const BlockRef& ref, const LoopRef& loop, const Buffer& buffer) {
  bool before = true, found = false;
  for (const BlockRef& other : schedule.blocks()) {
    before &= !(other == ref);
    const Block& block = schedule.node(other);
    if (has_blocks(block) || (!reads(block, buffer) && !writes(block, buffer))) continue;
    const std::vector<LoopRef> loops = schedule.loops(other);
    if (std::find(loops.begin(), loops.end(), loop) == loops.end()) continue;
    if (writes(block, buffer)) return false;
    found |= before;
  }
  return found;
}

}  // namespace lathe
