#include "schedule/auto/vectorize_scans.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/scan_lanes.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"
#include "schedule/scan.h"

namespace lathe {
namespace {

/// Fewer elements are combined in less time one by one.
constexpr std::int64_t shortest_scan = 4;

/// Vectors of a row that are worked on together.
constexpr std::int64_t vectors_in_flight = 2;

/// Is it a scan of several values, which match_scan leaves alone?
bool is_scan_of_tuples(const Block& block) {
  const auto ordered = [](const Iter& iter) { return iter.kind == IterKind::ordered; };
  const auto other = [](const Iter& iter) { return iter.kind != IterKind::ordered && iter.kind != IterKind::space; };
  return !block.f.reducer && block.f.writes.size() > 1 &&
         std::count_if(block.f.iters.begin(), block.f.iters.end(), ordered) == 1 &&
         std::none_of(block.f.iters.begin(), block.f.iters.end(), other);
}

const Access& stored(const std::vector<Access>& accesses) {
  return *std::find_if(accesses.begin(), accesses.end(), [](const Access& access) { return access.store; });
}

void make_innermost(Schedule& schedule, std::vector<LoopRef> loops, const LoopRef& loop) {
  if (loops.back() == loop) return;
  std::erase(loops, loop);
  loops.push_back(loop);
  reorder(schedule, loops);
}

/// Vectors along the scan itself; what is left behind the last whole one goes on element by element.
void vectorize_along(RuleContext& context, const BlockRef& ref, const LoopRef& loop, std::int64_t lanes) {
  Schedule& schedule = context.schedule;
  make_innermost(schedule, own_loops(schedule, ref), loop);
  const auto [start, terms, rest] = scan_lanes(schedule, ref, lanes);
  set_space(schedule, start, space::registers);
  set_space(schedule, terms, space::registers);
  vectorize(schedule, schedule.loops(terms).back());
  context.scheduled.insert(start.name);
  context.scheduled.insert(terms.name);
  if (rest) context.scheduled.insert(rest->name);
}

/// Vectors across the scan, of blocks of columns outside of it.
void vectorize_across(RuleContext& context, const BlockRef& ref, LoopRef columns, std::int64_t lanes,
                      std::int64_t element_bytes) {
  Schedule& schedule = context.schedule;
  const std::optional<std::int64_t> extent = greatest_extent(schedule.node(columns).extent, schedule.func());
  std::vector<LoopRef> loops = own_loops(schedule, ref);
  const LoopRef outermost = loops.front();
  std::erase(loops, columns);
  // What one row reads and writes, beside what the row before it wrote, leaves half of the cache to itself.
  const std::int64_t near = context.device.caches.empty() ? 1 << 15 : context.device.caches[0].bytes;
  const std::int64_t step = lanes * vectors_in_flight;
  // A block of columns of an unknown number is no wider than that is taken for: its vectors run without lanes, too.
  const std::int64_t room = near / (8 * element_bytes),
                     wanted = extent ? room : std::min(room, extent_estimate(schedule.node(columns).extent));
  const std::int64_t width = std::max(wanted / step, std::int64_t{1}) * step;
  if (!extent || *extent > width) {
    const auto [block, within] = split(schedule, columns, width);
    loops.insert(loops.begin(), block);
    columns = within;
  }
  loops.push_back(columns);
  reorder(schedule, loops);
  const auto [blocks, rest] = split(schedule, columns, lanes * vectors_in_flight);
  const auto [copy, lane] = split(schedule, rest, lanes);
  unroll(schedule, copy);
  vectorize(schedule, lane);
}

/// Vectors across a scan of tuples, where all its results are contiguous along one iter.
void vectorize_tuples(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<Access> accesses = block_accesses(block);
  const std::int64_t lanes = vector_lanes(block, context.device);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const bool contiguous = block.f.iters[i].kind == IterKind::space &&
                            std::all_of(accesses.begin(), accesses.end(),
                                        [&](const Access& access) { return !access.store || access.strides[i] == 1; });
    const std::optional<LoopRef> loop = contiguous ? loop_of_iter(schedule, ref, i) : std::nullopt;
    if (!loop) continue;
    const std::optional<std::int64_t> extent = greatest_extent(schedule.node(*loop).extent, schedule.func());
    std::int64_t width = lanes;
    while (extent && width > 1 && width > *extent) width /= 2;
    if (width < 2) continue;
    const std::int64_t bytes = widest_bits(block) / 8 * static_cast<std::int64_t>(block.f.writes.size());
    attempt(context, fmt::format("vectorize {} across its scan, over {}", ref.name, loop->variable->name),
            [&] { vectorize_across(context, ref, *loop, width, bytes); });
    break;
  }
}

}  // namespace

void vectorize_scans(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name)) continue;
    const std::optional<ScanParts> scan = match_scan(block);
    if (!scan && is_scan_of_tuples(block)) {
      vectorize_tuples(context, ref);
      context.scheduled.insert(ref.name);
    }
    if (!scan) continue;
    const std::vector<LoopRef> own = own_loops(schedule, ref);
    const std::vector<Access> accesses = block_accesses(block);
    const Access& store = stored(accesses);
    const std::int64_t lanes = vector_lanes(block, context.device);
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (store.strides[i] != 1) continue;
      const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, i);
      if (!loop || std::find(own.begin(), own.end(), *loop) == own.end()) continue;
      const std::optional<std::int64_t> extent = greatest_extent(schedule.node(*loop).extent, schedule.func());
      std::int64_t width = lanes;
      while (extent && width > 1 && width > *extent) width /= 2;
      if (width < 2) break;
      if (i == scan->iter) {
        if (extent && *extent < shortest_scan) break;
        attempt(context, fmt::format("scan {} in steps of {} lanes", ref.name, width),
                [&] { vectorize_along(context, ref, *loop, width); });
      } else {
        attempt(context, fmt::format("vectorize {} across its scan, over {}", ref.name, loop->variable->name),
                [&] { vectorize_across(context, ref, *loop, width, widest_bits(schedule.node(ref)) / 8); });
      }
      break;
    }
    context.scheduled.insert(ref.name);
  }
}

}  // namespace lathe
