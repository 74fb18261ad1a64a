#include "schedule/auto/vectorize_scans.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/feed_in_order.h"
#include "schedule/auto/turn_scans.h"
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

/// The cache that a row of its own occupies: one line in use, and its share of the sets that rows far apart have in
/// common.
constexpr std::int64_t row_bytes = 1024;
/// Fewer elements are combined in less time one by one.
constexpr std::int64_t shortest_scan = 4;

/// Vectors of a row that are worked on together.
constexpr std::int64_t vectors_in_flight = 2;
/// Rows of few columns that are scanned side by side, as each step waits for what the one before has stored (measured
/// on Zen 4, 2 to 16 columns: 0.25 to 0.4 of the time, two vectors of 32 columns 0.85).
constexpr std::int64_t rows_in_flight = 4;

/// Elements added to places that are picked by index in one iteration (measured on Zen 4, 300,000 bytes counted: 0.52
/// of the time, and of four counts side by side 0.5).
constexpr std::int64_t scattered_at_once = 4;

/// Is it a scan of several values, or by another combination than those that match_scan knows?
bool is_other_scan(const Block& block) {
  const auto ordered = [](const Iter& iter) { return iter.kind == IterKind::ordered; };
  const auto other = [](const Iter& iter) { return iter.kind != IterKind::ordered && iter.kind != IterKind::space; };
  return !block.f.reducer && !block.f.writes.empty() &&
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

/// Takes a few rows of the loop around the scan that lies nearest to it together, innermost: their steps do not wait
/// for each other. The last rows are fewer where no such number divides theirs; nothing where there is no other row.
std::optional<LoopRef> rows_side_by_side(Schedule& schedule, std::vector<LoopRef>& loops, const LoopRef& scan) {
  for (size_t i = loops.size(); i-- > 0;) {
    if (loops[i] == scan) continue;
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    if (!extent || *extent < 2) return std::nullopt;
    const std::int64_t together = greatest_divisor(*extent, 2, rows_in_flight).value_or(rows_in_flight);
    const auto [outer, rows] = split(schedule, loops[i], std::min(together, *extent));
    loops[i] = outer;
    loops.push_back(rows);
    return rows;
  }
  return std::nullopt;
}

/// Vectors across the scan, of blocks of columns outside of it.
void vectorize_across(RuleContext& context, const BlockRef& ref, LoopRef columns, std::int64_t lanes,
                      std::int64_t element_bytes, std::int64_t vectors = vectors_in_flight,
                      const std::optional<LoopRef>& scan = std::nullopt) {
  Schedule& schedule = context.schedule;
  const std::optional<std::int64_t> extent = greatest_extent(schedule.node(columns).extent, schedule.func());
  std::vector<LoopRef> loops = own_loops(schedule, ref);
  const LoopRef outermost = loops.front();
  std::erase(loops, columns);
  // What one row reads and writes, beside what the row before it wrote, leaves half of the cache to itself.
  const std::int64_t near = context.device.caches.empty() ? 1 << 15 : context.device.caches[0].bytes;
  if (extent) vectors = std::min(vectors, (*extent + lanes - 1) / lanes);
  const std::int64_t step = lanes * vectors;
  // A block of columns of an unknown number is no wider than that is taken for: its vectors run without lanes, too.
  const std::int64_t room = near / (8 * element_bytes),
                     wanted = extent ? room : std::min(room, extent_estimate(schedule.node(columns).extent));
  const std::int64_t width = std::max(wanted / step, std::int64_t{1}) * step;
  if (!extent || *extent > width) {
    const auto [block, within] = split(schedule, columns, width);
    loops.insert(loops.begin(), block);
    columns = within;
  }
  std::optional<LoopRef> rows;
  if (scan && extent && *extent <= step) rows = rows_side_by_side(schedule, loops, *scan);
  loops.push_back(columns);
  reorder(schedule, loops);
  if (rows) unroll(schedule, *rows);
  const auto [blocks, rest] = split(schedule, columns, step);
  const auto [copy, lane] = split(schedule, rest, lanes);
  unroll(schedule, copy);
  vectorize(schedule, lane);
}

/// The lanes of a vector that the loop fills.
std::int64_t filled_lanes(const Schedule& schedule, const LoopRef& loop, std::int64_t lanes) {
  const std::optional<std::int64_t> extent = greatest_extent(schedule.node(loop).extent, schedule.func());
  while (extent && lanes > 1 && lanes > *extent) lanes /= 2;
  return lanes;
}

/// Do all accesses walk memory along the iter, a store in steps of one where `contiguous`?
bool walks(const std::vector<Access>& accesses, size_t iter, bool contiguous) {
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const std::optional<std::int64_t>& stride = access.strides[iter];
    return contiguous ? !access.store || stride == 1 : stride && (!access.store || *stride != 0);
  });
}

/// Vectors across a scan that is combined in a way of its own, where all its results are contiguous along one iter;
/// else, of a single result that takes long to compute, across rows side by side.
bool vectorize_other(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const Accesses accesses = block_accesses(block);
  const std::int64_t lanes = vector_lanes(block, context.device), bytes = widest_bits(block) / 8;
  const auto results = static_cast<std::int64_t>(block.f.writes.size());
  for (const bool contiguous : {true, false}) {
    if (!contiguous && (results > 1 || body_cost(block) < function_body)) continue;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (block.f.iters[i].kind != IterKind::space || !walks(accesses, i, contiguous)) continue;
      const std::optional<OwnLoop> found = own_loop_of(schedule, ref, i);
      if (!found) continue;
      const std::int64_t width = filled_lanes(schedule, found->loop, lanes);
      if (width < 2) continue;
      // Rows each come back to a line of their own: no more of them than a vector has.
      const std::int64_t element = contiguous ? bytes * results : row_bytes,
                         vectors = contiguous ? vectors_in_flight : 1;
      attempt(context, fmt::format("vectorize {} across its scan, over {}", ref.name, found->loop.variable->name),
              [&] { vectorize_across(context, ref, found->loop, width, element, vectors); });
      return true;
    }
  }
  return false;
}

/// Adds to places that are picked by index a few at once, where nothing else stands in their loop: counting iterations
/// takes as long as adding.
void unroll_scatter(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> loops = own_loops(schedule, ref);
  if (loops.empty() || asserts(block) || body_cost(block) > costly_body) return;
  const auto iter = iter_moved_by(block, loops.back().variable);
  const auto extent = greatest_extent(schedule.node(loops.back()).extent, schedule.func());
  if (!iter || !extent || *extent < least_iterations * scattered_at_once || !scatters_along(block, *iter)) return;
  attempt(context, fmt::format("add {} of {} at once", scattered_at_once, ref.name),
          [&] { unroll(schedule, split(schedule, loops.back(), scattered_at_once).second); });
}

/// Does the block choose by what it loads, as the place of the greatest so far is chosen?
bool chooses_by_data(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    found |= choice && has_load(choice->condition);
  });
  return found;
}

}  // namespace

void vectorize_scans(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name)) continue;
    const std::optional<ScanParts> scan = match_scan(block);
    if (!scan && is_other_scan(block)) {
      const Schedule::Checkpoint before = schedule.checkpoint();
      const bool chooses = chooses_by_data(block), drops = drop_unread_results(context, ref);
      if (!turn_scan(context, ref) && !vectorize_other(context, ref)) {
        // Several results that are chosen alike are one branch, of which the next step does not wait for the condition.
        if (drops && chooses) {
          schedule.rollback(before);
          context.note(fmt::format("leave {} all it combines, one element after another", ref.name));
        }
        unroll_scatter(context, ref);
      }
      context.scheduled.insert(ref.name);
    }
    if (!scan) continue;
    const Accesses accesses = block_accesses(block);
    const Access& store = stored(accesses);
    const std::int64_t lanes = vector_lanes(block, context.device);
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (store.strides[i] != 1) continue;
      const std::optional<OwnLoop> found = own_loop_of(schedule, ref, i);
      if (!found) continue;
      const std::int64_t width = filled_lanes(schedule, found->loop, lanes);
      if (width < 2) break;
      if (i == scan->iter) {
        const auto extent = greatest_extent(schedule.node(found->loop).extent, schedule.func());
        if (extent && *extent < shortest_scan) break;
        attempt(context, fmt::format("scan {} in steps of {} lanes", ref.name, width),
                [&] { vectorize_along(context, ref, found->loop, width); });
      } else {
        const std::optional<OwnLoop> along = own_loop_of(schedule, ref, scan->iter);
        attempt(context, fmt::format("vectorize {} across its scan, over {}", ref.name, found->loop.variable->name),
                [&] {
                  vectorize_across(context, ref, found->loop, width, widest_bits(schedule.node(ref)) / 8,
                                   vectors_in_flight, along ? std::optional(along->loop) : std::nullopt);
                });
      }
      break;
    }
    context.scheduled.insert(ref.name);
  }
}

}  // namespace lathe
