#include "schedule/auto/prefetch_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/annotate.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr double costly_body = 8;
constexpr std::int64_t page_bytes = 4096;
/// The cache that the next row waits in: the first one has this row.
constexpr std::int64_t second_cache = 2;

/// A pass over rows: the loop over rows, and within it the innermost one over vectors.
struct Pass {
  LoopRef rows, steps;
};

std::optional<Pass> vector_pass(const Schedule& schedule, const BlockRef& ref) {
  const std::vector<LoopRef> loops = schedule.loops(ref);
  bool vectors = false;
  for (size_t depth = loops.size(); depth-- > 1;) {
    const For& loop = schedule.node(loops[depth]);
    vectors |= loop.for_kind == ForKind::vectorized;
    if (loop.for_kind != ForKind::serial) continue;
    return vectors && loop.annotations.empty() ? std::optional(Pass{loops[depth - 1], loops[depth]}) : std::nullopt;
  }
  return std::nullopt;
}

/// Elements that an access moves when `loop` advances; nothing where that is no constant.
std::optional<std::int64_t> advance(const Block& block, const Access& access, const LoopRef& loop) {
  Expr element = index(0);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::optional<std::int64_t>& stride = access.strides[i];
    if (!stride) return std::nullopt;
    if (*stride != 0) element = element + block.f.bindings[i] * *stride;
  }
  const auto linear = split_linear(simplify(element), loop.variable);
  return linear ? std::optional(linear->first) : std::nullopt;
}

/// Does a block before `ref` under the loop read the buffer, which none under the loop writes? Otherwise the next row
/// is yet to be computed.
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

}  // namespace

void prefetch_rows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const std::int64_t near = own_cache_bytes(context.device);
  if (near == 0) return;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block) || is_sealed(block) || body_cost(block.f.body) < costly_body) continue;
    const std::optional<Pass> pass = vector_pass(schedule, ref);
    if (!pass) continue;
    for (const Access& access : block_accesses(block)) {
      const std::int64_t bytes = access.buffer->dtype.bytes();
      if (access.store || access.masked ||
          static_cast<double>(bytes) * estimated_elements(access.buffer) <= static_cast<double>(near))
        continue;
      const auto row = advance(block, access, pass->rows), step = advance(block, access, pass->steps);
      if (!row || !step || *step <= 0 || *row * bytes <= page_bytes || 2 * *row * bytes > near) continue;
      if (!read_before(schedule, ref, pass->rows, access.buffer)) continue;
      attempt(context, fmt::format("have {} ask for the next row of {}", ref.name, access.buffer->name), [&] {
        annotate(schedule, pass->steps, "prefetch_offset", *row);
        annotate(schedule, pass->steps, "prefetch_cache", second_cache);
      });
      break;
    }
  }
}

}  // namespace lathe
