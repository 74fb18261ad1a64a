#include "schedule/auto/join_short_sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/ragged.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The reduce iter that a loop drives alone.
std::optional<size_t> reduced_by(const Block& block, const For& loop) {
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.bindings[i] == Expr(loop.variable) && block.f.iters[i].kind == IterKind::reduce) return i;
  }
  return std::nullopt;
}

/// Do both walk memory by a few elements at the most, one behind the other, where they move an access at all?
bool walk_as_one(const Block& block, size_t outer, size_t inner) {
  const Accesses accesses = block_accesses(block);
  const auto step = [&](const Access& access) { return access.strides[inner].value_or(0); };
  return goes_on(block, outer, inner) &&
         std::all_of(accesses.begin(), accesses.end(),
                     [&](const Access& a) { return step(a) >= 0 && step(a) <= most_shuffled_stride; }) &&
         std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return step(a) > 0; });
}

/// Joins the innermost two loops of the block; says whether it did.
bool join_innermost(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> own = own_loops(schedule, ref);
  if (own.size() < 2) return false;
  const LoopRef& outer = own[own.size() - 2];
  const LoopRef& inner = own.back();
  const auto a = reduced_by(block, schedule.node(outer)), b = reduced_by(block, schedule.node(inner));
  // Of axes that end at places of their own neither is the other's next row.
  if (!a || !b || !walk_as_one(block, *a, *b) || !ragged_iters(block).empty()) return false;
  return attempt(context, fmt::format("join the inner axes of {}", ref.name),
                 [&] { join_iters(schedule, ref, outer, inner); });
}

}  // namespace

void join_short_sum(RuleContext& context, const BlockRef& ref) {
  if (!is_plain_sum(context, ref)) return;
  while (join_innermost(context, ref)) {
  }
}

void join_short_sums(RuleContext& context) {
  for (const BlockRef& ref : context.schedule.blocks()) join_short_sum(context, ref);
}

}  // namespace lathe
