#include "schedule/auto/separate_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/analysis/affine.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/primitives/separate_window.h"

namespace lathe {
namespace {

/// What loading a vector of elements that lie by steps costs beside loading neighbours: another load, whose lanes are
/// picked beside other instructions.
constexpr double strided_load = 1;
/// How many times as fast a reduction is to be at the least; and where its rows fill no vector, which windows as a
/// whole may be joined to do (measured on Zen 4: 3x3 over 7x7 0.6, over 20x20 1.3).
constexpr double least_gain = 1.25, least_gain_of_short_rows = 3;
/// The same of windows by steps along half a vector of results or more, which are picked out of what registers hold of
/// a row (the same: 3x3 by 2 to rows of 8 to 56 results 0.5 to 0.75, of 7 1.5; with AVX2 0.7 to 0.95).
constexpr double least_gain_by_steps = 1.1;
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
  const std::int64_t lanes = vector_lanes(block, context.device);
  const bool picked = window.stride > 1 && results->dtype.bytes() >= picked_bytes;
  if (picked && 2 * window.results >= lanes) return least_gain_by_steps;
  if (window.results < lanes) return least_gain_of_short_rows;
  return near && bytes > static_cast<double>(*near) ? least_gain_of_far_rows : least_gain;
}

/// Of the last space iter that windows move along, the steps that are worth most by themselves; nothing where none
/// gains enough.
std::optional<Window> best_window(const RuleContext& context, const Block& block, const Expr& term) {
  const Accesses accesses = block_accesses(block);
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

/// How many elements of padding begin a row, for vectors of it to begin with lines of the image: where the windows are
/// picked out of registers, and rows of the image are whole lines (Zen 4, greatest of 3x3 by 2 over rows of 112: 0.82
/// of the time of loads that cross lines).
std::int64_t lead_to_line(const RuleContext& context, const Block& block, const Window& window) {
  const std::vector<CacheLevel>& caches = context.device.caches;
  const std::int64_t lanes = vector_lanes(block, context.device);
  if (caches.empty() || context.device.mask_registers == 0 || window.stride < 2 || window.results < lanes) return 0;
  const Load* load = nullptr;
  for (const Access& access : block_accesses(block)) {
    if (access.store || access.buffer == block.f.writes[0].buffer) continue;
    const std::int64_t bytes = access.buffer->dtype.bytes();
    for (size_t i = 0; i < access.strides.size(); ++i) {
      const bool whole = access.strides[i] && *access.strides[i] * bytes % caches[0].line_bytes == 0;
      if (i != window.across && i != window.along && !whole) return 0;
    }
    if (load || !access.masked || access.strides[window.along] != 1) return 0;
    load = load_of(block, access.buffer);
  }
  if (!load) return 0;
  const std::int64_t first = to_affine(load->indices.back()).constant % lanes;
  return first < 0 ? first + lanes : first;
}

}  // namespace

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
    const std::int64_t lead = lead_to_line(context, block, *window);
    attempt(context, fmt::format("sum the windows of {} along {} by themselves", ref.name, along->variable->name),
            [&] { separate_window(schedule, ref, *across, *along, lead); });
  }
}

}  // namespace lathe
