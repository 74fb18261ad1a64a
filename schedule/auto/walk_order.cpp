#include "schedule/auto/walk_order.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/analysis/simplify.h"
#include "ir/buffer.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reach.h"

namespace lathe {
namespace {

/// What it takes to find where a piece begins, in lines that follow each other: prefetchers have to begin anew, and
/// pages change (Zen 4: 256 batches of 3x200 by 63 steps whose rows lie 64 KB apart, from the third cache, take 0.2 to
/// 0.5 of the time where five rows at a time are read from one batch to the next).
constexpr double lines_of_piece = 4;
/// An order that takes more than this part of the lines of the one given is not worth another.
constexpr double clearly_fewer = 0.8, fewer_of_tiles = 0.9;
/// What it weighs to bring a line from the second cache beside one from beyond it, where loads wait for little, and to
/// store to one (measured on Cascade Lake: whole lines take 4 cycles each in the second cache, 6.4 in the third); and
/// the lines that a piece takes besides its own, as pages change.
constexpr double near_load = 0.2, near_store = 0.6, near_lines_of_piece = 1;
/// The same where tiles take windows in one body, with few multiply-adds for each element (Zen 4, channels last, 5x5
/// over 112x112: rows of the image innermost 0.8 of the time of channels innermost, which pass over memory once).
constexpr double window_load = 0.5;
/// What fits so many first caches waits for no line for long.
constexpr double near_part = 2;
/// Loops of which every order is looked at.
constexpr size_t most_loops = 5;

/// What some of a nest's loops reach of an array.
Reach reach_of(const LoopNest& nest, const LoopWalk& walk, const std::vector<size_t>& loops, double line_bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (const size_t i : loops) {
    if (walk.strides[i] != 0 && nest.extents[i] > 1) steps.emplace_back(std::abs(walk.strides[i]), nest.extents[i]);
  }
  return lathe::reach_of(std::move(steps), walk.element_bytes, line_bytes);
}

/// How lines are counted that come from beyond a cache.
struct LineCount {
  double room;                    ///< bytes of the cache
  double each_piece;              ///< lines that a piece takes besides its own
  int streams = 0;                ///< of pieces that loops around go on with, so many are found once
  double stored = 1, loaded = 1;  ///< what a line weighs
  bool left = false;              ///< lines that the iteration before has left are found again
};

/// The lines that a nest of this order takes from beyond a cache: what the innermost loops reach stays as long as it
/// fits, and is taken anew by each iteration of those around.
double lines_beyond(const Device& device, const LoopNest& nest, const std::vector<size_t>& order,
                    const LineCount& count) {
  const double line = device.caches.front().line_bytes;
  std::vector<size_t> loops(nest.extents.size() - nest.outer);
  std::iota(loops.begin(), loops.end(), nest.outer);
  const auto reaches = [&] {
    std::vector<Reach> all;
    all.reserve(nest.walks.size());
    for (const LoopWalk& walk : nest.walks) all.push_back(reach_of(nest, walk, loops, line));
    return all;
  };
  std::vector<Reach> kept = reaches(), next = kept;
  size_t around = order.size();
  while (around > 0) {
    loops.push_back(order[around - 1]);
    next = reaches();
    const double bytes = std::accumulate(next.begin(), next.end(), 0.0,
                                         [](double sum, const Reach& reach) { return sum + reach.bytes(); });
    if (bytes > count.room) break;
    kept = next;
    --around;
  }
  double lines = 0;
  for (size_t w = 0; w < kept.size(); ++w) {
    double times = 1, first = 1;
    // What stands still in the loops just around stays as well.
    bool moved = false;
    for (size_t k = around; k-- > 0;) {
      moved |= nest.walks[w].strides[order[k]] != 0;
      if (moved) (k + 1 == around ? first : times) *= static_cast<double>(nest.extents[order[k]]);
    }
    const double once = kept[w].lines(line);
    const double anew = count.left ? std::min(first * once, next[w].lines(line)) : first * once;
    const bool goes_on = kept[w].pieces <= count.streams && next[w].pieces <= kept[w].pieces;
    const double pieces = goes_on ? next[w].pieces : anew * kept[w].pieces / once;
    lines += (nest.walks[w].store ? count.stored : count.loaded) * times * (anew + count.each_piece * pieces);
  }
  return lines;
}

/// The lines that a nest of this order takes from beyond a core's own caches.
double lines_taken(const Device& device, const LoopNest& nest, const std::vector<size_t>& order) {
  const double room = static_cast<double>(own_cache_bytes(device)) / 2;
  return lines_beyond(device, nest, order, {room, lines_of_piece, device.streams_at_once});
}

/// The same where an iteration finds again what the one before has left.
double far_lines(const Device& device, const LoopNest& nest, const std::vector<size_t>& order) {
  const double room = static_cast<double>(own_cache_bytes(device)) / 2;
  return lines_beyond(device, nest, order, {room, lines_of_piece, device.streams_at_once, 1, 1, true});
}

/// The same with what it takes to move lines to and from the first cache.
double lines_moved(const Device& device, const LoopNest& nest, const std::vector<size_t>& order) {
  const double near = static_cast<double>(device.caches.front().bytes) / 2;
  const double loaded = nest.in_windows ? window_load : near_load,
               stored = multiplies_lines(device) ? near_store : loaded;
  return far_lines(device, nest, order) +
         lines_beyond(device, nest, order, {near, near_lines_of_piece, 0, stored, loaded, true});
}

/// Is all that the nest reaches so little that no order of its loops is worth another?
bool stays_nearest(const Device& device, const LoopNest& nest) {
  std::vector<size_t> all(nest.extents.size());
  std::iota(all.begin(), all.end(), size_t{0});
  double bytes = 0;
  for (const LoopWalk& walk : nest.walks)
    bytes += reach_of(nest, walk, all, device.caches.empty() ? 1 : device.caches.front().line_bytes).bytes();
  return device.caches.empty() || bytes <= near_part * static_cast<double>(device.caches.front().bytes);
}

/// A loop of the nest as one of the reader's: that, or the one over its tiles and the one within a tile.
struct NestLoop {
  size_t around, within;
  std::int64_t tile;  ///< iterations of the one within; 0 where there is none
};

/// How far an access goes from the first iteration of an iter to another, in elements, as panels of a width that
/// divides the latter go on by no constant stride.
std::optional<std::int64_t> moved_at(const Block& block, const Access& access, size_t iter, std::int64_t iteration) {
  for (const Region& region : access.store ? block.f.writes : block.f.reads) {
    if (region.buffer != access.buffer) continue;
    std::vector<Expr> indices;
    indices.reserve(region.ranges.size());
    for (const Range& range : region.ranges) indices.push_back(range.min);
    const Expr place = flat_index(access.buffer, indices);
    const auto at = [&](std::int64_t value) {
      Substitution values;
      for (size_t i = 0; i < block.f.iters.size(); ++i)
        values[block.f.iters[i].variable.get()] = index(i == iter ? value : 0);
      return simplify(substitute(place, values));
    };
    const Expr first = at(0), other = at(iteration);
    const std::int64_t *from = as_int(first), *to = as_int(other);
    return from && to ? std::optional(*to - *from) : std::nullopt;
  }
  return std::nullopt;
}

/// Strides of an access of the block for each loop; nothing where one is no constant.
std::optional<LoopWalk> walk_of(const Block& block, const Access& access,
                                const std::vector<std::optional<NestLoop>>& loop_of_iter, size_t loops) {
  LoopWalk walk{std::vector<std::int64_t>(loops), access.buffer->dtype.bytes(), access.store};
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (is_int(block.f.iters[i].domain.extent, 1)) continue;
    const std::optional<std::int64_t>& stride = access.strides[i];
    const std::optional<NestLoop>& loop = loop_of_iter[i];
    const bool panels = !stride && loop && loop->tile > 0;
    const auto within = panels ? moved_at(block, access, i, 1) : stride;
    if (!within || (!loop && *within != 0)) return std::nullopt;
    if (!loop) continue;
    const auto around =
        panels ? moved_at(block, access, i, loop->tile) : *within * std::max<std::int64_t>(loop->tile, 1);
    if (!around) return std::nullopt;
    walk.strides[loop->around] = *around;
    if (loop->tile > 0) walk.strides[loop->within] = *within;
  }
  return walk;
}

/// The nest with the loops around tiles first, then all others of the reader, then those of the reduction.
std::optional<LoopNest> nest_of(const Schedule& schedule, const Block& reduction, const BlockRef& reader_ref,
                                const std::vector<std::pair<size_t, LoopRef>>& matched,
                                const std::vector<LoopRef>& around, const std::vector<TiledLoop>& tiles) {
  const Block& reader = schedule.node(reader_ref);
  LoopNest nest;
  nest.outer = around.size();
  std::vector<LoopRef> loops = around;
  for (const LoopRef& loop : own_loops(schedule, reader_ref)) {
    if (std::find(loops.begin(), loops.end(), loop) == loops.end()) loops.push_back(loop);
  }
  std::vector<NestLoop> places;
  for (const LoopRef& loop : loops) {
    const std::int64_t* extent = as_int(schedule.node(loop).extent);
    if (!extent || *extent == 0) return std::nullopt;
    places.push_back({nest.extents.size(), 0, 0});
    nest.extents.push_back(*extent);
  }
  for (const TiledLoop& tile : tiles) {
    NestLoop& place = places[static_cast<size_t>(std::find(loops.begin(), loops.end(), tile.loop) - loops.begin())];
    std::int64_t& extent = nest.extents[place.around];
    place = {place.around, nest.extents.size(), std::min(tile.size, extent)};
    extent = (extent + place.tile - 1) / place.tile;
    nest.extents.push_back(place.tile);
  }
  std::vector<std::optional<NestLoop>> of_reduction(reduction.f.iters.size()), of_reader(reader.f.iters.size());
  for (const auto& [iter, loop] : matched) {
    const auto found = std::find(loops.begin(), loops.end(), loop);
    if (found == loops.end()) return std::nullopt;
    of_reduction[iter] = places[static_cast<size_t>(found - loops.begin())];
  }
  for (size_t i = 0; i < reduction.f.iters.size(); ++i) {
    const std::int64_t* extent = as_int(reduction.f.iters[i].domain.extent);
    if (reduction.f.iters[i].kind != IterKind::reduce || !extent) continue;
    of_reduction[i] = NestLoop{nest.extents.size(), 0, 0};
    nest.extents.push_back(*extent);
  }
  for (size_t i = 0; i < reader.f.iters.size(); ++i) {
    for (size_t k = 0; k < loops.size(); ++k) {
      if (reader.f.bindings[i] == Expr(loops[k].variable)) of_reader[i] = places[k];
    }
  }
  const Buffer& result = reduction.f.writes[0].buffer;
  const auto add = [&](const Block& block, const std::vector<std::optional<NestLoop>>& loop_of_iter) {
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

/// Are all the loops the reader's own?
bool all_own(const Schedule& schedule, const BlockRef& reader, const std::vector<LoopRef>& around) {
  const std::vector<LoopRef> own = own_loops(schedule, reader);
  return std::all_of(around.begin(), around.end(),
                     [&](const LoopRef& loop) { return std::find(own.begin(), own.end(), loop) != own.end(); });
}

std::optional<std::vector<LoopRef>> in_order(const std::vector<LoopRef>& around,
                                             const std::optional<std::vector<size_t>>& order) {
  if (!order) return std::nullopt;
  std::vector<LoopRef> loops;
  loops.reserve(order->size());
  for (const size_t i : *order) loops.push_back(around[i]);
  return loops;
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

std::optional<std::vector<size_t>> order_of_tiles(const Device& device, const LoopNest& nest,
                                                  const std::vector<size_t>& moved) {
  if (nest.outer < 2 || moved.empty() || device.caches.empty()) return std::nullopt;
  std::vector<size_t> given(nest.outer);
  std::iota(given.begin(), given.end(), size_t{0});
  std::optional<std::vector<size_t>> best;
  double least = lines_moved(device, nest, given) * fewer_of_tiles;
  // One loop after the other to each place, outermost last: of as many orders the nearest to the one given wins.
  std::vector<std::vector<size_t>> orders{given};
  for (const size_t loop : moved) {
    const std::vector<std::vector<size_t>> before = std::move(orders);
    orders.clear();
    for (const std::vector<size_t>& order : before) {
      const auto place = std::find(order.begin(), order.end(), loop) - order.begin();
      const auto add = [&](std::ptrdiff_t to) {
        std::vector<size_t>& other = orders.emplace_back(order);
        other.erase(other.begin() + place);
        other.insert(other.begin() + to, loop);
      };
      for (std::ptrdiff_t to = place; to >= 0; --to) add(to);
      for (std::ptrdiff_t to = place + 1; nest.in_windows && to < std::ssize(order); ++to) add(to);
    }
  }
  for (const std::vector<size_t>& order : orders) {
    const double lines = order == given ? least : lines_moved(device, nest, order);
    if (lines >= least) continue;
    least = lines;
    best = order;
  }
  // Where loads have time, lines of the second cache alone are not worth another order.
  if (best && !lacks_issue_slots(device) &&
      far_lines(device, nest, *best) > fewer_of_tiles * far_lines(device, nest, given))
    return std::nullopt;
  return best;
}

std::optional<std::vector<LoopRef>> order_around_tiles(const RuleContext& context, const BlockRef& reduction,
                                                       const BlockRef& reader,
                                                       const std::vector<std::pair<size_t, LoopRef>>& matched,
                                                       const std::vector<LoopRef>& around) {
  const Schedule& schedule = context.schedule;
  if (!all_own(schedule, reader, around)) return std::nullopt;
  const auto nest = nest_of(schedule, schedule.node(reduction), reader, matched, around, {});
  return in_order(around, nest ? order_of_walks(context.device, *nest) : std::nullopt);
}

std::optional<std::vector<LoopRef>> order_of_tiles(const RuleContext& context, const BlockRef& reduction,
                                                   const BlockRef& reader,
                                                   const std::vector<std::pair<size_t, LoopRef>>& matched,
                                                   const std::vector<LoopRef>& around,
                                                   const std::vector<TiledLoop>& tiles, bool in_windows) {
  const Schedule& schedule = context.schedule;
  if (!all_own(schedule, reader, around)) return std::nullopt;
  auto nest = nest_of(schedule, schedule.node(reduction), reader, matched, around, tiles);
  if (nest) nest->in_windows = in_windows;
  if (!nest || stays_nearest(context.device, *nest)) return std::nullopt;
  std::vector<size_t> moved;
  for (const TiledLoop& tile : tiles) {
    const size_t place = static_cast<size_t>(std::find(around.begin(), around.end(), tile.loop) - around.begin());
    if (nest->extents[place] > 1) moved.push_back(place);
  }
  return in_order(around, order_of_tiles(context.device, *nest, moved));
}

}  // namespace lathe
