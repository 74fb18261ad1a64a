#include "schedule/auto/join_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Steps of a sum from which on a copy of its result is a small part (measured on Zen 3, rows of 28: eight steps take
/// 1.4 of the time, of 225 sixteen 0.72).
constexpr double least_steps = 16;
/// Vectors of a row from which on its end is a small part.
constexpr std::int64_t most_vectors = 32;

/// The last dimensions of what the block writes that are one axis, by their iters; fewer than two where they are none.
std::vector<size_t> columns_of(const Block& block, std::int64_t lanes) {
  std::vector<size_t> columns;
  const std::vector<Range>& written = block.f.writes[0].ranges;
  for (size_t d = written.size(); d-- > 0;) {
    const auto iter = std::find_if(block.f.iters.begin(), block.f.iters.end(), [&](const Iter& i) {
      return i.kind == IterKind::space && written[d].min == Expr(i.variable) && is_int(i.domain.min, 0);
    });
    if (iter == block.f.iters.end()) break;
    const auto i = static_cast<size_t>(iter - block.f.iters.begin());
    if (columns.empty()) {
      const std::vector<Access> accesses = block_accesses(block);
      const bool along = std::all_of(accesses.begin(), accesses.end(),
                                     [&](const Access& access) { return access.strides[i] == 1 && !access.masked; });
      const std::int64_t* row = as_int(iter->domain.extent);
      if (!along || !row || *row % lanes == 0 || *row > most_vectors * lanes) return {};
    } else if (!goes_on(block, i, columns.back())) {
      break;
    }
    columns.push_back(i);
  }
  return columns;
}

void join(RuleContext& context, const BlockRef& ref, size_t count) {
  Schedule& schedule = context.schedule;
  cache_write(schedule, ref, space::global);
  const Buffer results = schedule.node(ref).f.writes[0].buffer;
  LayoutMap map = same_layout(results->rank());
  const size_t first = results->rank() - count;
  for (size_t d = first + 1; d < results->rank(); ++d) map.to[first] = map.to[first] * results->shape[d] + map.to[d];
  map.to.resize(first + 1);
  transform_layout(schedule, ref, results->name, map);
  for (size_t joined = 1; joined < count; ++joined) {
    const Block& block = schedule.node(ref);
    const std::vector<LoopRef> own = own_loops(schedule, ref);
    const auto last = std::find_if(own.rbegin(), own.rend(), [&](const LoopRef& loop) {
      return drives(block, IterKind::space, schedule.node(loop));
    });
    if (last == own.rend() || last + 1 == own.rend()) throw Refusal("join_columns", 2, "its loops are joined already");
    join_iters(schedule, ref, *(last + 1), *last);
  }
}

}  // namespace

void join_columns(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (!is_plain_sum(context, ref)) continue;
    const Block& block = schedule.node(ref);
    if (instance_count(block) < least_steps * estimated_elements(block.f.writes[0].buffer)) continue;
    const size_t count = columns_of(block, vector_lanes(block, context.device)).size();
    if (count < 2) continue;
    attempt(context, fmt::format("join the columns of {}", ref.name), [&] { join(context, ref, count); });
  }
}

}  // namespace lathe
