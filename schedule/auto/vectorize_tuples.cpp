#include "schedule/auto/vectorize_tuples.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_loops.h"
#include "schedule/auto/turn_scans.h"
#include "schedule/commutes.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Vectors in a row from which on four chains gain as much again as a second one from long_row on, which take a
/// millisecond more to compile.
constexpr std::int64_t longest_row = 1024;
/// Rows of less than so many vectors are gathered, a lane each, where a core's own caches hold the array: of 16 lanes
/// Zen 4 gathers 1565 x 64 in 0.48 of the time of vectors along rows, 1250 x 80 in 0.63 of that of groups, 1040 x 96 in
/// 1.08; of 8 lanes 2001 x 48 in 0.7, 1564 x 64 in 1.2. Of an array from farther away lines leave before all of their
/// elements are gathered: 40000 x 64 1.5 to 2.
constexpr std::int64_t gathered_vectors = 6;
/// Rows whose tuples are reduced side by side, and the lanes that this takes of rows of up to so many vectors (measured
/// on Zen 4: half of the 16 take 0.68 of the time of rows of 64, 0.74 of 96, 0.81 of 200, 0.92 of 250).
constexpr std::int64_t most_grouped_rows = 4, least_lanes = 8, short_vectors = 16;

/// The space iter along which every access of a reduction of tuples walks near, and a store is contiguous; loads by any
/// steps where `strided` ones are taken.
std::optional<size_t> tuple_column(const Block& block, bool strided) {
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind != IterKind::space) continue;
    const bool walks = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return walks_near(access, i) || (strided && !access.store && access.strides[i]);
    });
    const bool stores = std::any_of(accesses.begin(), accesses.end(),
                                    [&](const Access& access) { return access.store && access.strides[i] == 1; });
    if (walks && stores) return i;
  }
  return std::nullopt;
}

/// Of the elements that a block reads and writes.
int narrowest_bits(const Block& block) {
  int bits = 64;
  for (const Access& access : block_accesses(block)) bits = std::min(bits, static_cast<int>(access.buffer->dtype.bits));
  return bits;
}

/// Rows whose tuples of neighbours are reduced side by side, so that their chains overlap and stay in registers. 1
/// where several loops, or one of no constant extent, go along the reduction.
std::int64_t rows_at_once(const Schedule& schedule, const BlockRef& ref, const std::vector<LoopRef>& own,
                          std::optional<LoopRef>& along) {
  const Block& block = schedule.node(ref);
  for (const LoopRef& loop : own) {
    if (!drives(block, IterKind::reduce, schedule.node(loop))) continue;
    if (along) return 1;
    along = loop;
  }
  const std::int64_t* extent = along ? as_int(schedule.node(*along).extent) : nullptr;
  if (!extent || !block.f.reducer || !commutes(*block.f.reducer)) return 1;
  // Fewer iterations than so gain less than folding the rows together takes.
  return *extent >= 4 * least_iterations * ordered_chains ? ordered_chains : 1;
}

/// Is what one row comes to kept in registers while its steps are taken? None of it is loaded behind its store then,
/// which under a mask waits until that is done (measured on Zen 4: places of maxima over 211 steps of 5 columns 0.11 of
/// the time, over 8 of 16 0.5, over 3 of 5 0.4).
bool stays_in_registers(const Schedule& schedule, const LoopRef& along) {
  const std::int64_t* steps = as_int(schedule.node(along).extent);
  return steps && *steps > 1;
}

/// Makes one loop of two over rows that go on from one to the other, so that few of them fill vectors together; says
/// whether there were such.
bool join_rows(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const auto is_rows = [&](size_t i) {
    return block.f.iters[i].kind == IterKind::space && !is_int(block.f.iters[i].domain.extent, 1);
  };
  for (size_t inner = block.f.iters.size(); inner-- > 1;) {
    for (size_t outer = inner; outer-- > 0;) {
      if (!is_rows(outer) || !is_rows(inner) || !goes_on(block, outer, inner)) continue;
      const auto first = own_loop_of(schedule, ref, outer), second = own_loop_of(schedule, ref, inner);
      if (first && second && attempt(context, fmt::format("join rows of {}", ref.name), [&] {
            join_iters(schedule, ref, first->loop, second->loop);
          }))
        return true;
    }
  }
  return false;
}

/// The lanes that so many neighbours fill; nothing for one.
std::optional<std::int64_t> column_lanes(std::int64_t extent, std::int64_t lanes) {
  while (lanes > 2 && lanes / 2 >= extent) lanes /= 2;
  return 2 * extent > lanes ? std::optional(lanes) : std::nullopt;
}

/// Reduces tuples of several neighbours at once, each in a lane of its own.
bool vectorize_columns(RuleContext& context, const BlockRef& ref, std::int64_t lanes, bool strided) {
  Schedule& schedule = context.schedule;
  const std::optional<size_t> column = tuple_column(schedule.node(ref), strided);
  const std::optional<OwnLoop> found = column ? own_loop_of(schedule, ref, *column) : std::nullopt;
  if (!found) return false;
  const std::int64_t extent = extent_estimate(schedule.node(found->loop).extent, schedule.func()->facts);
  const std::optional<std::int64_t> filled = column_lanes(extent, lanes);
  if (!filled) return false;
  lanes = *filled;
  // No instruction gathers narrow elements: lanes that are masked out would each be a branch.
  if (strided && extent < lanes && narrowest_bits(schedule.node(ref)) < 32) return false;
  const std::int64_t vectors = extent >= 2 * lanes ? ordered_chains : 1;
  std::optional<LoopRef> along;
  // Gathering short rows takes longer than comparing them.
  const std::int64_t rows = strided ? 1 : rows_at_once(schedule, ref, found->own, along);
  const bool stays = rows == 1 && along && !strided && stays_in_registers(schedule, *along);
  const auto lay_out = [&](std::int64_t rows, bool in_registers) {
    const auto [steps, within] = split(schedule, found->loop, lanes * vectors);
    std::vector<LoopRef> order;
    for (const LoopRef& loop : found->own) {
      if (!in_registers || !(loop == *along)) order.push_back(loop == found->loop ? steps : loop);
    }
    context.scheduled.insert(ref.name);
    if (!in_registers) {
      order.push_back(within);
      reorder(schedule, order);
      vectorize_copies(schedule, within, vectors, lanes);
      return;
    }
    // One row's loop stands around its steps, which are then folded in their order, as not every reducer commutes.
    const auto [outer, inner] =
        split(schedule, *along, rows > 1 ? rows : extent_estimate(schedule.node(*along).extent));
    const LoopRef row = rows > 1 ? inner : outer;
    order.insert(order.end(), {outer, inner, within});
    reorder(schedule, order);
    const BlockRef partial = partial_results(schedule, ref, row);
    context.scheduled.insert(partial.name);
    set_space(schedule, partial, space::registers);
    unroll(schedule, row);
    vectorize_copies(schedule, within, vectors, lanes);
    const std::vector<LoopRef> loops = own_loops(schedule, ref);
    reorder(schedule, {loops[1], loops[0]});
    unroll(schedule, loops[1]);
    vectorize_copies(schedule, loops[0], vectors, lanes);
  };
  const std::string what = fmt::format("reduce tuples of {} in {} vectors of {} neighbours", ref.name, vectors, lanes);
  return (rows > 1 && attempt(context, fmt::format("{}, {} rows at once", what, rows), [&] { lay_out(rows, true); })) ||
         (stays && attempt(context, what + ", in registers", [&] { lay_out(1, true); })) ||
         attempt(context, what, [&] { lay_out(1, false); });
}

/// A loop over rows, so many of which are reduced side by side.
struct RowGroups {
  LoopRef loop;
  std::int64_t rows;
};

/// Those that leave each core a group at the least; nothing where rows do not divide into groups, or where the terms
/// take long enough to overlap without, and to compile.
std::optional<RowGroups> row_groups(const RuleContext& context, const BlockRef& ref, const OwnLoop& found) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts) return std::nullopt;
  double cost = 0;
  for (const Stmt& s : parts->lets) cost += expression_cost(s.as<Let>()->value);
  for (const Expr& term : parts->terms) cost += expression_cost(term);
  if (cost > costly_body) return std::nullopt;
  for (const std::int64_t rows : {most_grouped_rows, most_grouped_rows / 2}) {
    for (size_t i = found.own.size(); i-- > 0;) {
      const For& loop = schedule.node(found.own[i]);
      const std::int64_t* extent = as_int(loop.extent);
      if (extent && *extent % rows == 0 && *extent / rows >= context.device.cores &&
          drives(block, IterKind::space, loop) && !drives(block, IterKind::reduce, loop))
        return RowGroups{found.own[i], rows};
    }
  }
  return std::nullopt;
}

/// Reduces the tuples of several rows in vectors along them, so that their chains overlap and places are worked out
/// once; lanes are folded across the rows.
void reduce_row_groups(RuleContext& context, const BlockRef& ref, const OwnLoop& found, const RowGroups& grouped,
                       std::int64_t lanes) {
  Schedule& schedule = context.schedule;
  const auto [groups, row] = split(schedule, grouped.loop, grouped.rows);
  const auto [steps, lane] = split(schedule, found.loop, lanes);
  std::vector<LoopRef> order;
  for (const LoopRef& loop : found.own) {
    if (!(loop == found.loop)) order.push_back(loop == grouped.loop ? groups : loop);
  }
  order.insert(order.end(), {steps, row, lane});
  reorder(schedule, order);
  const BlockRef partial = rfactor(schedule, ref, lane);
  unroll(schedule, row);
  vectorize(schedule, schedule.loops(partial).back());
  const std::vector<LoopRef> folds = own_loops(schedule, ref);
  reorder(schedule, {folds[folds.size() - 1], folds[folds.size() - 2]});
  vectorize(schedule, folds[folds.size() - 2]);
  context.scheduled.insert(partial.name);
  context.scheduled.insert(ref.name);
}

/// Folds what `partial` leaves to the block: chains of so many lanes lane by lane, then these by halves.
void fold_tuples(RuleContext& context, const BlockRef& ref, BlockRef partial, std::int64_t vectors,
                 std::int64_t lanes) {
  Schedule& schedule = context.schedule;
  for (std::int64_t width = vectors > 1 ? lanes : lanes / 2; width >= 2; width /= 2) {
    const LoopRef lane = split(schedule, schedule.loops(ref).back(), width).second;
    const BlockRef folded = rfactor(schedule, ref, lane);
    const std::vector<LoopRef> loops = schedule.loops(folded);
    unroll(schedule, loops[loops.size() - 2]);
    vectorize(schedule, loops.back());
    set_space(schedule, partial, space::registers);
    context.scheduled.insert(folded.name);
    partial = folded;
  }
  unroll(schedule, schedule.loops(ref).back());
  set_space(schedule, partial, space::registers);
}

std::int64_t tuple_lanes(const Block& block, const Device& device) {
  // As many lanes as the narrowest type has: wider ones take several registers.
  return device.lanes(std::max(narrowest_bits(block), 32));
}

/// Are rows of so many steps gathered?
bool gathers_rows(const Block& block, const Device& device, std::int64_t steps) {
  double bytes = 0;
  for (const Access& access : block_accesses(block)) {
    if (!access.store)
      bytes = std::max(bytes, estimated_elements(access.buffer) * static_cast<double>(access.buffer->dtype.bytes()));
  }
  const std::int64_t own = own_cache_bytes(device);
  const bool near = own == 0 || bytes <= static_cast<double>(own);
  return steps < (near ? gathered_vectors : least_iterations) * tuple_lanes(block, device);
}

/// The loop along the longest axis that all accesses walk near.
std::optional<OwnLoop> loop_along(const Schedule& schedule, const BlockRef& ref) {
  const std::optional<size_t> axis = near_axis(schedule.node(ref), schedule.func()->facts);
  return axis ? own_loop_of(schedule, ref, *axis) : std::nullopt;
}

/// Reduces tuples in vectors along a row, of several rows where these make groups.
void reduce_along(RuleContext& context, const BlockRef& ref, std::int64_t lanes) {
  Schedule& schedule = context.schedule;
  const std::optional<OwnLoop> found = loop_along(schedule, ref);
  if (!found) return;
  const std::optional<std::int64_t> extent = greatest_extent(schedule.node(found->loop).extent, schedule.func());
  const auto grouped = row_groups(context, ref, *found);
  // Lanes are folded one after another across the rows, which takes longer than the rows themselves where these are
  // short.
  const std::int64_t grouped_lanes = extent && *extent < short_vectors * lanes ? std::min(lanes, least_lanes) : lanes;
  if (grouped &&
      attempt(context,
              fmt::format("reduce tuples of {} rows of {} in {} lanes", grouped->rows, ref.name, grouped_lanes),
              [&] { reduce_row_groups(context, ref, *found, *grouped, grouped_lanes); }))
    return;
  const std::int64_t in_row = extent ? *extent / lanes : 0, vectors = in_row >= longest_row ? chains
                                                                      : in_row >= long_row  ? ordered_chains
                                                                                            : 1;
  attempt(context, fmt::format("reduce tuples of {} in {} vectors of {} lanes", ref.name, vectors, lanes), [&] {
    make_innermost(schedule, ref, *found);
    const auto [steps, within] = split(schedule, found->loop, lanes * vectors);
    const BlockRef partial = rfactor(schedule, ref, within);
    vectorize_copies(schedule, schedule.loops(partial).back(), vectors, lanes);
    context.scheduled.insert(partial.name);
    fold_tuples(context, ref, partial, vectors, lanes);
    context.scheduled.insert(ref.name);
  });
}

}  // namespace

bool takes_rows_side_by_side(const Block& block, const Device& device) {
  if (!block.f.reducer || block.f.writes.size() < 2) return false;
  const std::optional<size_t> column = tuple_column(block, false);
  if (column && column_lanes(extent_estimate(block.f.iters[*column].domain.extent), tuple_lanes(block, device)))
    return true;
  std::int64_t steps = 1;
  for (const Iter& iter : block.f.iters) {
    if (iter.kind == IterKind::reduce) steps *= extent_estimate(iter.domain.extent);
  }
  return gathers_rows(block, device, steps);
}

void vectorize_tuples(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::int64_t lanes = tuple_lanes(block, context.device);
  if (vectorize_columns(context, ref, lanes, false)) return;
  if (!match_update(block) || !block.f.reducer) return;
  if (!commutes(*block.f.reducer)) {
    turn_fold(context, ref,
              [&](const BlockRef& reduction) { return vectorize_columns(context, reduction, lanes, false); });
    return;
  }
  const std::optional<OwnLoop> found = loop_along(schedule, ref);
  if (!found) return;
  const std::optional<std::int64_t> extent = greatest_extent(schedule.node(found->loop).extent, schedule.func());
  if (lanes < 2) return;
  if (extent && gathers_rows(block, context.device, *extent)) {
    // Of short rows many at once: elements are gathered one by one, but compared together.
    while (join_rows(context, ref)) {
    }
    if (vectorize_columns(context, ref, lanes, true) || *extent < lanes * least_iterations) return;
  }
  reduce_along(context, ref, lanes);
}

}  // namespace lathe
