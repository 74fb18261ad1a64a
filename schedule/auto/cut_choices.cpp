#include "schedule/auto/cut_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ir/analysis/simplify.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/auto/split_digits.h"
#include "schedule/auto/stacked_axis.h"
#include "schedule/auto/stream_outputs.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/weave_vectors.h"
#include "schedule/complete.h"
#include "schedule/inlining.h"
#include "schedule/primitives/split_domain.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Every block that comes of it is compiled for itself: more of them only where each computes something else.
constexpr std::int64_t most_different_parts = 64;
/// Vectors that a block has at the least, those of a row that is cut itself where it repeats others, and the elements
/// of a part of one that fills no vector (measured on Zen 4, rows joined of 3, 6 or 12 parts of 2 to 7 floats, 20 of
/// one, or 5 of 2 to 64: 0.05 to 0.3 of the time when cut, of bytes 0.03 to 0.1; 3 to 5 parts of 3 floats 0.7, 10 of
/// one 1.5; rows of padding 1.0 to 1.3, of bytes to 2.3. With AVX2, where masks of bytes are branches, 0.01 to 0.2).
constexpr std::int64_t least_vectors = 8, least_repeated_vectors = 4, shortest_joined = 2;
/// The greatest cost of a body, for each part it is cut into, at which choices still weigh something: twice as much
/// where what is read jumps.
constexpr double costly_choice = 8, costly_jumping_choice = 16;

/// Lines of a part that begins within one, where lines are written past the caches: the one that two parts share costs
/// several (measured on Zen 4: rows of padding beside 112x112 1.1 of the time, halves of rows of 8 KB 2).
constexpr std::int64_t least_lines = 64;

/// What all parts together compute, at the most, of what the block does where a costly body is cut.
constexpr double most_longer = 1.25;

/// The iter along which all stores are contiguous; nothing when there is none.
std::optional<size_t> row_of(const Block& block) {
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (stores_in_a_row(accesses, i)) return i;
  }
  return std::nullopt;
}

/// The lengths of the parts.
std::vector<std::int64_t> parts_of(const std::set<std::int64_t>& points, std::int64_t extent) {
  std::vector<std::int64_t> parts;
  std::int64_t from = 0;
  for (const std::int64_t point : points) {
    parts.push_back(point - from);
    from = point;
  }
  parts.push_back(extent - from);
  return parts;
}

/// Do the ends of a row, short ones among them, stand beside one part that fills vectors? Such edges are cut off where
/// what is read jumps: worked out lane by lane, or under a mask that leads outside of an array, it takes longer than
/// they do.
bool are_edges(const std::vector<std::int64_t>& parts, std::int64_t least) {
  const auto fills = [&](std::int64_t n) { return n >= least; };
  if (parts.size() > 3 || std::all_of(parts.begin(), parts.end(), fills)) return false;
  return fills(parts[1]) || (parts.size() == 2 && fills(parts[0]));
}

/// Where a row of `extent` elements is cut: into parts of `least`, or where edges leave a vector of `lanes` at the
/// least.
std::set<std::int64_t> row_points(const std::set<std::int64_t>& all, const std::set<std::int64_t>& jumps,
                                  std::int64_t extent, std::int64_t least, std::int64_t lanes) {
  const std::vector<std::int64_t> parts = parts_of(all, extent);
  if (*std::min_element(parts.begin(), parts.end()) >= least) return all;
  return !jumps.empty() && are_edges(parts_of(jumps, extent), lanes) ? jumps : std::set<std::int64_t>{};
}

bool may_be_cut(const Block& block) {
  return !block.f.reducer && !block.f.predicate && !has_blocks(block) && !is_sealed(block) &&
         block.f.writes.size() == 1;
}

bool writes_output(const RuleContext& context, const Block& block) {
  return !is_allocated(context.schedule.func(), block.f.writes[0].buffer);
}

/// Do the parts between the points compute other things, so that all of them together are hardly longer than the block?
bool parts_differ(const Block& block, const std::vector<std::set<std::int64_t>>& points) {
  double longest = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].empty()) continue;
    double together = 0;
    std::int64_t from = 0;
    for (const std::int64_t length : parts_of(points[i], extent_estimate(block.f.iters[i].domain.extent))) {
      Bounds bounds;
      for (const Iter& iter : block.f.iters) bounds.bind(iter.variable, iter.domain);
      bounds.bind(block.f.iters[i].variable, Interval::between(from, from + length - 1));
      together += body_cost(simplify(block.f.body, bounds));
      from += length;
    }
    longest = std::max(longest, together);
  }
  return longest <= most_longer * body_cost(block);
}

/// An iter along which all stores go on in memory, and the elements that each of its steps takes.
struct Row {
  size_t iter;
  std::int64_t step;
};

/// Are the blocks few, each large enough and of runs that fill vectors, edges of a row aside, and the choices of some
/// weight in them?
bool makes_good_blocks(const Block& block, const std::vector<std::set<std::int64_t>>& points, const Row& row,
                       std::int64_t lanes, std::int64_t least_row) {
  std::int64_t count = 1, behind = 1;
  double smallest = instance_count(block) / static_cast<double>(lanes), most = costly_choice;  // in vectors
  for (size_t i = points.size(); i-- > 0;) {
    const std::int64_t extent = extent_estimate(block.f.iters[i].domain.extent);
    if (!points[i].empty()) {
      const std::vector<std::int64_t> parts = parts_of(points[i], extent);
      const auto [shortest, longest] = std::minmax_element(parts.begin(), parts.end());
      const bool edges = i == row.iter && *shortest < least_row;
      if (edges) most = costly_jumping_choice;
      if (i != row.iter && *shortest * behind < lanes) return false;
      count *= static_cast<std::int64_t>(parts.size());
      const std::int64_t length = edges || (i == row.iter && are_edges(parts, lanes)) ? *longest : *shortest;
      smallest *=
          static_cast<double>(i == row.iter ? (length * row.step + lanes - 1) / lanes * lanes / row.step : length) /
          static_cast<double>(extent);
    }
    behind *= extent;
  }
  if (count == 1 || count > most_different_parts || smallest < least_vectors) return false;
  // Of what is stacked within short rows an element is one of the operands.
  const std::optional<JoinedAxis> joined = joined_axis(block);
  const bool stacked =
      row.step > 1 && joined && points[joined->iter].empty() && is_stacked_along(block, block.f.iters[joined->iter]);
  if (stacked) most = costly_jumping_choice * static_cast<double>(joined->operands);
  const bool cheap = body_cost(block) <= most * static_cast<double>(count);
  return (cheap && count <= most_parts) || parts_differ(block, points);
}

/// Where the row fills no vector, the iter around it of which a few steps do; nothing where there is none.
std::optional<Row> row_of_short_rows(const Block& block, size_t row, std::int64_t lanes) {
  const auto extent_of = [&](size_t i) {
    const std::int64_t* extent = as_int(block.f.iters[i].domain.extent);
    return extent ? *extent : 0;
  };
  const Accesses accesses = block_accesses(block);
  Row found{row, 1};
  while (extent_of(found.iter) > 1 && extent_of(found.iter) * found.step < lanes) {
    const std::int64_t step = extent_of(found.iter) * found.step;
    const auto is_next = [&](size_t i) {
      return extent_of(i) > 1 && std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
               return !access.store || access.strides[i] == step;
             });
    };
    size_t next = 0;
    while (next < block.f.iters.size() && !is_next(next)) ++next;
    if (next == block.f.iters.size()) return std::nullopt;
    found = {next, step};
  }
  return found.iter == row ? std::nullopt : std::optional(found);
}

/// The elements that a part of a row has at the least. Each vector of what is joined costs a masked load of each
/// operand: of several vectors all parts are worth blocks of their own, of one those of two elements at the least, as
/// single ones are woven. What fills in beside an operand, as padding does, costs nothing: parts of half a vector.
std::int64_t shortest_part(const Points& points, size_t row, std::int64_t extent, std::int64_t lanes) {
  const size_t parts = points.of_iters[row].size() + 1, operands = points.jumps.size() + 1;
  if (extent <= lanes) return operands == parts ? shortest_joined : lanes;
  return 2 * operands > parts ? 1 : (lanes + 1) / 2;
}

/// Of the points where operands are joined every second one, every fourth or so, where all of them make too many blocks
/// or too small ones: each then chooses among a few. Nothing where that does not help.
std::vector<std::set<std::int64_t>> fewer_points(const Block& block, std::vector<std::set<std::int64_t>> points,
                                                 const Row& row, std::int64_t lanes, std::int64_t least_row) {
  const std::optional<JoinedAxis> joined = joined_axis(block);
  if (!joined) return {};
  std::set<std::int64_t>& joins = points[joined->iter];
  while (joins.size() + 1 > many_operands) {
    bool keep = false;
    std::erase_if(joins, [&](std::int64_t) { return !std::exchange(keep, !keep); });
    if (makes_good_blocks(block, points, row, lanes, least_row)) return points;
  }
  return {};
}

/// Where a block is cut, by iters; and whether its parts are to be asked again, as along the row they still choose.
struct Cuts {
  std::vector<std::set<std::int64_t>> points;
  bool again = false;
};

/// Of what is joined each part is of one operand, or may be of several.
enum class Parts { of_one, of_several };

/// The points that are worth cutting at; those of the row alone where all of them make too many blocks, or those of an
/// axis around it that operands are joined along. A row that loops of its own digits would walk is not cut where it
/// repeats others.
Cuts points_along(const Schedule& schedule, const BlockRef& ref, const Row& row, std::int64_t lanes, Parts parts) {
  const Block& block = schedule.node(ref);
  const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, row.iter);
  Points found = points_of(block, row.iter, loop && !digits_of(schedule, ref, *loop).empty());
  const std::int64_t extent = extent_estimate(block.f.iters[row.iter].domain.extent);
  const std::int64_t least = found.repeats ? lanes : shortest_part(found, row.iter, extent * row.step, lanes);
  const auto steps = [&](std::int64_t count) { return (count + row.step - 1) / row.step; };
  // What repeats inside of short rows would be a vector for each of them.
  const std::int64_t least_row = steps(row.step == 1 && found.repeats ? least_repeated_vectors * lanes : least);
  std::vector<std::set<std::int64_t>>& points = found.of_iters;
  points[row.iter] = row_points(points[row.iter], found.jumps, extent, least_row, steps(least));
  if (makes_good_blocks(block, points, row, lanes, least_row)) return {points};
  if (parts == Parts::of_several) {
    if (auto fewer = fewer_points(block, points, row, lanes, least_row); !fewer.empty()) return {fewer};
  }
  std::vector<size_t> alone{row.iter};
  if (const std::optional<JoinedAxis> joined = joined_axis(block); joined && joined->iter != row.iter)
    alone.push_back(joined->iter);
  for (const size_t iter : alone) {
    std::vector<std::set<std::int64_t>> some(points.size());
    some[iter] = points[iter];
    if (makes_good_blocks(block, some, row, lanes, least_row))
      return {some, iter != row.iter && !points[row.iter].empty()};
  }
  return {};
}

Cuts points_worth_it(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::int64_t lanes = vector_lanes(block, context.device);
  const std::optional<size_t> row = row_of(block);
  const std::optional<JoinedAxis> operands = joined_axis(block);
  if (!row || ((!operands || operands->iter == *row) && weaves_rows(context, ref))) return {};
  const std::optional<Row> joined = row_of_short_rows(block, *row, lanes);
  for (const Parts parts : {Parts::of_one, Parts::of_several}) {
    Cuts cuts = points_along(schedule, ref, Row{*row, 1}, lanes, parts);
    if (cuts.points.empty() && joined) cuts = points_along(schedule, ref, *joined, lanes, parts);
    if (!cuts.points.empty()) return cuts;
  }
  return {};
}

/// Cuts the block, and each part of it, at the points of the iters from `iter` on, and adds the parts.
void cut(Schedule& schedule, const BlockRef& ref, const std::vector<std::set<std::int64_t>>& points, size_t iter,
         std::vector<BlockRef>& parts) {
  while (iter < points.size() && points[iter].empty()) ++iter;
  if (iter == points.size()) return parts.push_back(ref);
  // From behind, so that points stay where they are and the block keeps its name.
  for (auto point = points[iter].rbegin(); point != points[iter].rend(); ++point) {
    const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, iter);
    if (loop) cut(schedule, split_domain(schedule, ref, *loop, *point), points, iter + 1, parts);
  }
  cut(schedule, ref, points, iter + 1, parts);
}

/// Would short parts begin within lines, of an output that may be written past the caches, a whole line at a time?
bool breaks_lines(const Device& device, const Func& func, const Block& block,
                  const std::vector<std::set<std::int64_t>>& points) {
  const Buffer& written = block.f.writes[0].buffer;
  if (is_allocated(func, written) || !may_stream(written, device)) return false;
  const std::int64_t line = device.caches.back().line_bytes;
  const Accesses accesses = block_accesses(block);
  const auto store = std::find_if(accesses.begin(), accesses.end(), [](const Access& access) { return access.store; });
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].empty()) continue;
    const std::int64_t step = std::abs(store->strides[i].value_or(0)) * written->dtype.bytes();
    const std::vector<std::int64_t> parts = parts_of(points[i], extent_estimate(block.f.iters[i].domain.extent));
    bool within =
        std::any_of(points[i].begin(), points[i].end(), [&](std::int64_t point) { return point * step % line != 0; });
    // Rows that begin within lines take their parts along.
    for (const std::optional<std::int64_t>& stride : store->strides) {
      const std::int64_t pitch = std::abs(stride.value_or(1)) * written->dtype.bytes();
      within |= pitch > step && pitch % line != 0;
    }
    if (within && *std::min_element(parts.begin(), parts.end()) * step < least_lines * line) return true;
  }
  return false;
}

}  // namespace

bool turns_at_edges(const RuleContext& context, const Block& block) {
  const std::optional<size_t> row = may_be_cut(block) ? row_of(block) : std::nullopt;
  const std::int64_t* extent = row ? as_int(block.f.iters[*row].domain.extent) : nullptr;
  if (!extent) return false;
  const std::set<std::int64_t> jumps = points_of(block, *row, false).jumps;
  return !jumps.empty() && are_edges(parts_of(jumps, *extent), vector_lanes(block, context.device));
}

bool cuts_edges_off(const RuleContext& context, const Block& maker, const LoopRef& loop) {
  if (!turns_at_edges(context, maker)) return false;
  const std::optional<size_t> row = row_of(maker);
  const std::optional<size_t> dimension = dimension_of(maker.f.writes[0], maker, *row);
  const Region region = region_read(context.schedule, maker, loop);
  return dimension && constant_difference(region.ranges[*dimension].extent, region.buffer->shape[*dimension]) != 0;
}

std::optional<double> part_share(const RuleContext& context, const Block& block, const Expr& mask) {
  const Store* store = block.f.body.as<Store>();
  if (!store || store->indices.empty() || !may_be_cut(block) || !writes_output(context, block)) return std::nullopt;
  const std::int64_t lanes = vector_lanes(block, context.device);
  Bounds bounds;
  for (const Iter& iter : block.f.iters) bounds.bind(iter.variable, iter.domain);
  bounds.assume(mask);
  double share = 1;
  for (const Iter& iter : block.f.iters) {
    const std::int64_t* extent = as_int(iter.domain.extent);
    const Interval held = bounds.interval(iter.variable);
    if (!extent || !held.min || !held.max) return std::nullopt;
    const std::int64_t length = *held.max - *held.min + 1;
    if (length < *extent && length < lanes && store->indices.back() == Expr(iter.variable)) return std::nullopt;
    share *= static_cast<double>(length) / static_cast<double>(*extent);
  }
  if (share == 1 || share * static_cast<double>(most_different_parts) < 1) return std::nullopt;
  const std::optional<size_t> row = row_of(block);
  if (!row) return std::nullopt;
  std::int64_t parts = 1;
  for (const std::set<std::int64_t>& points : points_of(block, *row, true).of_iters)
    parts *= static_cast<std::int64_t>(points.size()) + 1;
  return parts <= most_different_parts ? std::optional(share) : std::nullopt;
}

void cut_block(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (context.scheduled.contains(ref.name) || !may_be_cut(block)) return;
  if (!writes_output(context, block) && !joined_axis(block) && !turns_at_edges(context, block)) return;
  const Cuts cuts = points_worth_it(context, ref);
  if (cuts.points.empty() || breaks_lines(context.device, schedule.func(), block, cuts.points)) return;
  std::vector<BlockRef> parts;
  const bool is_cut = attempt(context, fmt::format("cut {} where it chooses by its place", ref.name),
                              [&] { cut(schedule, ref, cuts.points, 0, parts); });
  if (!is_cut || !cuts.again) return;
  for (const BlockRef& part : parts) cut_block(context, part);
}

void cut_choices(RuleContext& context) {
  for (const BlockRef& ref : context.schedule.blocks()) cut_block(context, ref);
}

}  // namespace lathe
