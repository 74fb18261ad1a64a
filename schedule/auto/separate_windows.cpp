#include "schedule/auto/separate_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/separate_window.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What loading a vector of elements that lie by steps costs beside loading neighbours: another load, whose lanes are
/// picked beside other instructions.
constexpr double strided_load = 1;
/// How many times as fast a reduction is to be at the least; and where its rows fill no vector, which windows as a
/// whole may be joined to do (measured on Zen 4: 3x3 over 7x7 0.6, over 20x20 1.3).
constexpr double least_gain = 1.25, least_gain_of_short_rows = 3;
/// The same where what is shared leaves the caches, should its rows not be joined with those of the windows (the same:
/// 3x3 over three images of 2000x2000 0.65).
constexpr double least_gain_of_far_rows = 2.5;

/// An iter of the results that windows move along, and an iter of their steps, of so many values.
struct Window {
  size_t across = 0, along = 0;
  std::int64_t results = 0, steps = 0;
  std::int64_t stride = 1, step = 1;  ///< how far a result and a step move what is read, over their common divisor
};

/// The extent of an iter that windows may have; 0 where it is symbolic, or of a single value.
std::int64_t window_extent(const Iter& iter, IterKind kind) {
  const std::int64_t* extent = as_int(iter.domain.extent);
  return iter.kind == kind && extent && *extent > 1 ? *extent : 0;
}

/// Do all loads move by both iters in the same proportion, or by neither?
std::optional<Window> window_of(const Block& block, const std::vector<Access>& accesses, size_t across, size_t along) {
  const std::int64_t results = window_extent(block.f.iters[across], IterKind::space);
  const std::int64_t steps = window_extent(block.f.iters[along], IterKind::reduce);
  if (results == 0 || steps == 0) return std::nullopt;
  std::optional<Window> window;
  for (const Access& access : accesses) {
    if (access.store || access.buffer == block.f.writes[0].buffer) continue;
    const std::optional<std::int64_t> stride = access.strides[across], step = access.strides[along];
    if (!stride || !step || (*stride == 0) != (*step == 0)) return std::nullopt;
    if (*stride == 0) continue;
    const std::int64_t shared = std::gcd(*stride, *step);
    const Window found{across, along, results, steps, std::abs(*stride) / shared, std::abs(*step) / shared};
    if (window && (window->stride != found.stride || window->step != found.step)) return std::nullopt;
    window = found;
  }
  return window;
}

/// The cost of a term within its borders: what only masks ask of places is done for whole vectors, or not at all.
double term_cost(const Expr& term) {
  double cost = expression_cost(term);
  for_each_expr(term, [&](const Expr& e) {
    const Select* select = e.as<Select>();
    if (select && !has_load(select->condition)) cost -= expression_cost(select->condition) + 1;
    if (const Load* load = e.as<Load>(); load && load->mask) cost -= 1;
  });
  return std::max(cost, 1.0);
}

/// How much longer the whole window takes than one axis after the other, as its terms, loads and stores are estimated.
double gain(const Block& block, const std::vector<Access>& accesses, const Window& window, const Expr& term) {
  const auto results = static_cast<double>(window.results), steps = static_cast<double>(window.steps);
  const double places =
      static_cast<double>(window.stride) * (results - 1) + static_cast<double>(window.step) * (steps - 1) + 1;
  double others = 1;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == IterKind::reduce && i != window.along)
      others *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
  }
  const bool in_vectors = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.store && access.strides[window.across] == 1;
  });
  const double surcharge = in_vectors && window.stride > 1 ? strided_load : 0;
  const double update = term_cost(term) + 1;
  const double whole = others * steps * (update + surcharge);
  return whole / (places / results * (others * update + 1) + steps * (copy_body + surcharge));
}

/// How many times as fast sums of the window are to be.
double gain_to_reach(const RuleContext& context, const Block& block, const Window& window) {
  const std::optional<std::int64_t> near = nearest_memory_bytes(context.device);
  const Buffer& results = block.f.writes[0].buffer;
  const double bytes =
      estimated_elements(results, context.schedule.func()->facts) * static_cast<double>(results->dtype.bytes());
  if (window.results < vector_lanes(block, context.device)) return least_gain_of_short_rows;
  return near && bytes > static_cast<double>(*near) ? least_gain_of_far_rows : least_gain;
}

/// Of the last space iter that windows move along, the steps that are worth most by themselves; nothing where none
/// gains enough.
std::optional<Window> best_window(const RuleContext& context, const Block& block, const Expr& term) {
  const std::vector<Access> accesses = block_accesses(block);
  for (size_t across = block.f.iters.size(); across-- > 0;) {
    std::optional<Window> best;
    double most = 0;
    for (size_t along = 0; along < block.f.iters.size(); ++along) {
      const std::optional<Window> window = window_of(block, accesses, across, along);
      const double gained = window ? gain(block, accesses, *window, term) : 0;
      if (!window || gained <= most || gained < gain_to_reach(context, block, *window)) continue;
      most = gained;
      best = window;
    }
    if (best) return best;
  }
  return std::nullopt;
}

/// Do windows that a space iter moves and a reduce iter walks overlap in this index?
bool overlap(const Block& block, const Expr& place) {
  std::int64_t stride = 0, reach = 0;
  for (const Iter& iter : block.f.iters) {
    if (!uses_var(place, iter.variable.get())) continue;
    const std::optional<std::pair<std::int64_t, Expr>> part = split_linear(place, iter.variable);
    const std::int64_t extent = window_extent(iter, iter.kind);
    if (!part || extent == 0) return false;
    if (iter.kind == IterKind::space) stride = std::abs(part->first);
    if (iter.kind == IterKind::reduce) reach = std::abs(part->first) * (extent - 1);
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

void separate_windows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (!is_plain_sum(context, ref)) continue;
    const Block& block = schedule.node(ref);
    const std::optional<ReductionParts> parts = match_update(block);
    const auto reduced = [](const Iter& iter) { return iter.kind == IterKind::reduce; };
    if (!parts || std::count_if(block.f.iters.begin(), block.f.iters.end(), reduced) < 2) continue;
    const std::optional<Window> window = best_window(context, block, parts->terms[0]);
    if (!window) continue;
    const std::optional<LoopRef> across = loop_of_iter(schedule, ref, window->across);
    const std::optional<LoopRef> along = loop_of_iter(schedule, ref, window->along);
    if (!across || !along) continue;
    attempt(context, fmt::format("sum the windows of {} along {} by themselves", ref.name, along->variable->name),
            [&] { separate_window(schedule, ref, *across, *along); });
  }
}

}  // namespace lathe
