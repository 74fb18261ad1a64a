#include "schedule/auto/walk_order.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/visitor.h"
#include "schedule/auto/block_model.h"

namespace lathe {
namespace {

/// What it takes to find where a piece begins, in lines that follow each other: prefetchers have to begin anew, and
/// pages change.
constexpr double lines_of_piece = 3;
/// An order that takes more than this part of the lines of the one given is not worth another.
constexpr double clearly_fewer = 0.8;
/// Loops of which every order is looked at.
constexpr size_t most_loops = 5;

/// What some of a nest's loops reach of an array: pieces of neighbouring elements.
struct Reach {
  double pieces = 1, piece_bytes = 0;

  double bytes() const { return pieces * piece_bytes; }
  double lines(double line_bytes) const { return pieces * (1 + lines_of_piece + (piece_bytes - 1) / line_bytes); }
};

Reach reach_of(const LoopNest& nest, const LoopWalk& walk, const std::vector<size_t>& loops, double line_bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // how far, how often
  for (const size_t i : loops) {
    if (walk.strides[i] != 0 && nest.extents[i] > 1) steps.emplace_back(std::abs(walk.strides[i]), nest.extents[i]);
  }
  std::sort(steps.begin(), steps.end());
  double run = 1, pieces = 1;
  const double gap = line_bytes / static_cast<double>(walk.element_bytes);
  for (size_t i = 0; i < steps.size(); ++i) {
    auto [stride, extent] = steps[i];
    // Loops that go as far, as the steps of a window and its place do, reach what one would.
    while (i + 1 < steps.size() && steps[i + 1].first == stride) extent += steps[++i].second - 1;
    if (static_cast<double>(stride) < run + gap && pieces == 1) {
      run += static_cast<double>(stride * (extent - 1));
    } else {
      pieces *= static_cast<double>(extent);
    }
  }
  return {pieces, run * static_cast<double>(walk.element_bytes)};
}

/// The lines that a nest of this order takes from beyond a core's own caches: what the innermost loops reach stays as
/// long as it fits, and is taken anew by each iteration of those around.
double lines_taken(const Device& device, const LoopNest& nest, const std::vector<size_t>& order) {
  const double room = static_cast<double>(own_cache_bytes(device)) / 2;
  const double line = device.caches.front().line_bytes;
  std::vector<size_t> loops(nest.extents.size() - nest.outer);
  std::iota(loops.begin(), loops.end(), nest.outer);
  const auto reaches = [&] {
    std::vector<Reach> all;
    all.reserve(nest.walks.size());
    for (const LoopWalk& walk : nest.walks) all.push_back(reach_of(nest, walk, loops, line));
    return all;
  };
  std::vector<Reach> kept = reaches();
  size_t around = order.size();
  while (around > 0) {
    loops.push_back(order[around - 1]);
    std::vector<Reach> wider = reaches();
    const double bytes = std::accumulate(wider.begin(), wider.end(), 0.0,
                                         [](double sum, const Reach& reach) { return sum + reach.bytes(); });
    if (bytes > room) break;
    kept = std::move(wider);
    --around;
  }
  double lines = 0;
  for (size_t w = 0; w < kept.size(); ++w) {
    double times = 1;
    // What stands still in the loops just around stays as well.
    bool moved = false;
    for (size_t k = around; k-- > 0;) {
      moved |= nest.walks[w].strides[order[k]] != 0;
      if (moved) times *= static_cast<double>(nest.extents[order[k]]);
    }
    lines += times * kept[w].lines(line);
  }
  return lines;
}

/// Strides of an access of the block for each loop; nothing where one is no constant.
std::optional<LoopWalk> walk_of(const Block& block, const Access& access, const std::vector<size_t>& loop_of_iter,
                                size_t loops) {
  LoopWalk walk{std::vector<std::int64_t>(loops), access.buffer->dtype.bytes()};
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (is_int(block.f.iters[i].domain.extent, 1)) continue;
    const std::optional<std::int64_t>& stride = access.strides[i];
    if (!stride || (loop_of_iter[i] >= loops && *stride != 0)) return std::nullopt;
    if (loop_of_iter[i] < loops) walk.strides[loop_of_iter[i]] = *stride;
  }
  return walk;
}

/// The nest with the loops around tiles first, then all others of the reader, then those of the reduction.
std::optional<LoopNest> nest_of(const Schedule& schedule, const Block& reduction, const BlockRef& reader_ref,
                                const std::vector<std::pair<size_t, LoopRef>>& matched,
                                const std::vector<LoopRef>& around) {
  const Block& reader = schedule.node(reader_ref);
  LoopNest nest;
  nest.outer = around.size();
  std::vector<LoopRef> loops = around;
  for (const LoopRef& loop : own_loops(schedule, reader_ref)) {
    if (std::find(loops.begin(), loops.end(), loop) == loops.end()) loops.push_back(loop);
  }
  for (const LoopRef& loop : loops) {
    const std::int64_t* extent = as_int(schedule.node(loop).extent);
    if (!extent) return std::nullopt;
    nest.extents.push_back(*extent);
  }
  std::vector<size_t> of_reduction(reduction.f.iters.size(), SIZE_MAX), of_reader(reader.f.iters.size(), SIZE_MAX);
  for (const auto& [iter, loop] : matched) {
    const auto found = std::find(loops.begin(), loops.end(), loop);
    if (found == loops.end()) return std::nullopt;
    of_reduction[iter] = static_cast<size_t>(found - loops.begin());
  }
  for (size_t i = 0; i < reduction.f.iters.size(); ++i) {
    const std::int64_t* extent = as_int(reduction.f.iters[i].domain.extent);
    if (reduction.f.iters[i].kind != IterKind::reduce || !extent) continue;
    of_reduction[i] = nest.extents.size();
    nest.extents.push_back(*extent);
  }
  for (size_t i = 0; i < reader.f.iters.size(); ++i) {
    for (size_t k = 0; k < loops.size(); ++k) {
      if (reader.f.bindings[i] == Expr(loops[k].variable)) of_reader[i] = k;
    }
  }
  const Buffer& result = reduction.f.writes[0].buffer;
  const auto add = [&](const Block& block, const std::vector<size_t>& loop_of_iter) {
    for (const Access& access : block_accesses(block)) {
      if (access.buffer == result) continue;
      auto walk = walk_of(block, access, loop_of_iter, nest.extents.size());
      if (!walk) return false;
      nest.walks.push_back(std::move(*walk));
    }
    return true;
  };
  if (!add(reduction, of_reduction) || !add(reader, of_reader)) return std::nullopt;
  return nest;
}

}  // namespace

std::optional<std::vector<size_t>> order_of_walks(const Device& device, const LoopNest& nest) {
  if (nest.outer < 2 || nest.outer > most_loops || device.caches.empty()) return std::nullopt;
  std::vector<size_t> order(nest.outer);
  std::iota(order.begin(), order.end(), size_t{0});
  std::optional<std::vector<size_t>> best;
  double least = lines_taken(device, nest, order) * clearly_fewer;
  while (std::next_permutation(order.begin(), order.end())) {
    const double lines = lines_taken(device, nest, order);
    if (lines >= least) continue;
    least = lines;
    best = order;
  }
  return best;
}

std::optional<std::vector<LoopRef>> order_around_tiles(const RuleContext& context, const BlockRef& reduction,
                                                       const BlockRef& reader,
                                                       const std::vector<std::pair<size_t, LoopRef>>& matched,
                                                       const std::vector<LoopRef>& around) {
  const Schedule& schedule = context.schedule;
  const std::vector<LoopRef> own = own_loops(schedule, reader);
  const bool all_own = std::all_of(around.begin(), around.end(), [&](const LoopRef& loop) {
    return std::find(own.begin(), own.end(), loop) != own.end();
  });
  const auto nest =
      all_own ? nest_of(schedule, schedule.node(reduction), reader, matched, around) : std::optional<LoopNest>();
  const auto order = nest ? order_of_walks(context.device, *nest) : std::nullopt;
  if (!order) return std::nullopt;
  std::vector<LoopRef> loops;
  loops.reserve(order->size());
  for (const size_t i : *order) loops.push_back(around[i]);
  return loops;
}

}  // namespace lathe
