#include "schedule/auto/join_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Do windows that a space iter moves and a reduce iter walks overlap in this index?
bool overlap(const Block& block, const Expr& place) {
  std::int64_t stride = 0, reach = 0;
  for (const Iter& iter : block.f.iters) {
    if (!uses_var(place, iter.variable.get())) continue;
    const std::optional<std::pair<std::int64_t, Expr>> part = split_linear(place, iter.variable);
    const std::int64_t* extent = as_int(iter.domain.extent);
    if (!part || !extent) return false;
    if (iter.kind == IterKind::space) stride = std::abs(part->first);
    if (iter.kind == IterKind::reduce) reach = std::abs(part->first) * (*extent - 1);
  }
  return stride > 0 && stride <= reach;
}

/// Is it a sum over windows of a tensor, and of nothing besides?
bool sums_windows(const Block& block, const Buffer& buffer) {
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || parts->terms.size() != 1) return false;
  const Load* load = parts->terms[0].as<Load>();
  return load && load->buffer == buffer &&
         std::any_of(load->indices.begin(), load->indices.end(), [&](const Expr& e) { return overlap(block, e); });
}

/// Does a block below `second` sum windows of what one below `first` writes?
bool feeds_windows(const Stmt& first, const Stmt& second) {
  for (const Stmt& writer : outer_blocks(first)) {
    for (const Region& region : writer.as<Block>()->f.writes) {
      for (const Stmt& reader : outer_blocks(second)) {
        if (sums_windows(*reader.as<Block>(), region.buffer)) return true;
      }
    }
  }
  return false;
}

/// The loops that stand side by side in a sequence.
std::vector<LoopRef> side_by_side(const Stmt& body) {
  std::vector<LoopRef> loops;
  const Seq* all = body.as<Seq>();
  for (size_t i = 0; all && i < all->stmts.size(); ++i) {
    if (const For* loop = all->stmts[i].as<For>()) loops.push_back({loop->variable});
  }
  return loops;
}

/// Joins two loops, and the two that are left in them then, as far as that goes. Is there one where two were?
bool join_from_outside(RuleContext& context, LoopRef first, LoopRef second) {
  Schedule& schedule = context.schedule;
  for (bool joined = false;; joined = true) {
    if (constant_difference(schedule.node(first).extent, schedule.node(second).extent) != 0) return joined;
    LoopRef both;
    const std::string decision = fmt::format("sum windows of each {} behind what they share", first.variable->name);
    if (!attempt(context, decision, [&] { both = join_loops(schedule, first, second); })) return joined;
    const std::vector<LoopRef> inside = side_by_side(schedule.node(both).body);
    if (inside.size() != 2) return true;
    first = inside[0];
    second = inside[1];
  }
}

}  // namespace

bool are_summed_in_windows(const Schedule& schedule, const BlockRef& block) {
  const Buffer buffer = schedule.node(block).f.writes[0].buffer;
  const std::vector<BlockRef> readers = schedule.consumers(block);
  return std::any_of(readers.begin(), readers.end(),
                     [&](const BlockRef& reader) { return sums_windows(schedule.node(reader), buffer); });
}

void join_windows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const auto nests = [&] {
    const Block* root = root_block(schedule.func());
    return root ? side_by_side(root->f.body) : std::vector<LoopRef>{};
  };
  std::vector<LoopRef> all = nests();
  for (size_t i = 0; i + 1 < all.size();) {
    const bool feeds = feeds_windows(path_to(schedule, all[i]).back(), path_to(schedule, all[i + 1]).back());
    if (feeds && join_from_outside(context, all[i], all[i + 1])) {
      all = nests();
    } else {
      ++i;
    }
  }
}

}  // namespace lathe
