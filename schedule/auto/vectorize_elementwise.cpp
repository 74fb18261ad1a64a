#include "schedule/auto/vectorize_elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/analysis/affine.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/passes/vectorize_loops.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/ask_ahead.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/check_ahead.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/one_walk.h"
#include "schedule/auto/pick_rows.h"
#include "schedule/auto/repeat_rows.h"
#include "schedule/auto/share_lines.h"
#include "schedule/auto/short_squares.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/auto/turn_tiles.h"
#include "schedule/auto/turned_loop.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/weave_vectors.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What an iteration covers, in bits and in vectors, so that the loop's own instructions hide behind the stores; twice
/// as much where the loop leaves the nearest cache, for more misses at once. Every copy costs compile time, and the
/// tail has as many: from the nearest cache 512-bit vectors run as fast in two copies as in four.
constexpr std::int64_t bits_in_flight = 1024, most_vectors_in_flight = 4;
/// Vectors of a row from which on a whole one at its end costs no more than one under a mask.
constexpr std::int64_t least_shifted = 16;
/// Iterations that share the places that a vector gathers from: more gain little, and want what they read near.
constexpr std::int64_t most_sharing_places = 16;
/// Lanes of a vector each of which has a place of its own, in rows of unknown length: its instructions take as long as
/// it has lanes, so that more gain nothing but where a function's steps do.
constexpr std::int64_t most_placed_lanes = 8;
/// Elements that are picked in one iteration, where no vectors pick them: the loop's own instructions and what each
/// element waits for take twice as long as picking it (Zen 4: numbers by 1M bytes 870, by four 360 us).
constexpr std::int64_t picks_in_flight = 4;
/// A multiplication and two shifts, in units of body_cost.
constexpr double division_cost = 2;

/// Does the block store vectors already?
bool stores_vectors(const Block& block) {
  bool found = false;
  for_each_stmt(block.f.body, [&](const Stmt& s) {
    const Store* store = s.as<Store>();
    found |= store && store->value->dtype.lanes > 1;
  });
  return found;
}

/// The one iter that `loop` moves, by one a step and alone of the loops of its `own`; nothing where several move.
std::optional<size_t> bound_iter(const Block& block, const std::vector<LoopRef>& own, const LoopRef& loop) {
  std::optional<size_t> found;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (!uses_var(block.f.bindings[i], loop.variable.get())) continue;
    if (found) return std::nullopt;
    found = i;
  }
  if (!found || block.f.bindings[*found] == Expr(loop.variable)) return found;
  for (const AffineTerm& term : to_affine(block.f.bindings[*found]).terms) {
    if (term.atom == Expr(loop.variable) && term.coefficient == 1) continue;
    if (std::any_of(own.begin(), own.end(), [&](const LoopRef& o) { return uses_var(term.atom, o.variable.get()); }))
      return std::nullopt;
  }
  return found;
}

/// The iters of all loops.
std::optional<std::vector<size_t>> bound_iters(const Block& block, const std::vector<LoopRef>& own) {
  std::vector<size_t> iters;
  for (const LoopRef& loop : own) {
    const auto iter = bound_iter(block, own, loop);
    if (!iter) return std::nullopt;
    iters.push_back(*iter);
  }
  return iters;
}

/// The bytes that a loop over the iter alone touches, each access for itself.
std::int64_t footprint(const std::vector<Access>& accesses, size_t iter, std::int64_t extent) {
  std::int64_t bytes = 0;
  for (const Access& access : accesses) {
    if (access.strides[iter] != 0) bytes += extent * access.buffer->dtype.bytes();
  }
  return bytes;
}

/// An element-wise block under its own loops: what each of these moves, and which is to become vectors.
struct Nest {
  const BlockRef& ref;
  std::vector<Access> accesses;
  std::vector<LoopRef> loops;
  std::vector<size_t> iters;  ///< that the loop of the same place moves
  size_t best;
  double cost;

  const LoopRef& loop() const { return loops[best]; }
  size_t iter() const { return iters[best]; }
};

/// Turns squares of a load that lies across the vectors around in registers; false where none does. A long body, which
/// is not to be copied for each row of a square, walks tiles of what was turned.
bool turn(RuleContext& context, const Nest& nest) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(nest.ref);
  const auto turned = turned_loop(context, block, nest.accesses, nest.loops, nest.iters, nest.best);
  if (!turned) return false;
  const LoopRef& along = nest.loops[turned->along];
  const size_t along_iter = nest.iters[turned->along];
  const std::int64_t side = turned->side;
  const std::string over =
      fmt::format("{} over {} and {}", nest.ref.name, along.variable->name, nest.loop().variable->name);
  const bool apart = nest.cost > costly_body;
  const auto tile = plan_tile(context, nest.ref, nest.accesses, nest.iter(), along_iter, side, turned->group, apart);
  if (tile && attempt(context, fmt::format("turn tiles of {}x{} of {}", tile->rows, tile->columns, over), [&] {
        turn_tiles(context, nest.ref, nest.loops, nest.loop(), along, *tile, side);
        const std::vector<LoopRef> loops = schedule.loops(nest.ref);
        if (schedule.node(loops.back()).for_kind != ForKind::vectorized || loops.size() < 2) return;
        ask_for_rows(context, loops[loops.size() - 2], nest.accesses, nest.iter(), along_iter, tile->rows);
      }))
    return true;
  if (apart) return false;
  attempt(context, fmt::format("turn squares of {}", over), [&] {
    const std::int64_t parts = parts_of_cores(context, block, nest.loops, nest.loop(), along, side, turned->group);
    turn_squares(schedule, nest.loops, nest.loop(), along, side, turned->group, parts);
    prefetch_turned(context, nest.ref, nest.accesses, along_iter, nest.iter());
    const std::vector<LoopRef> loops = schedule.loops(nest.ref);
    ask_for_rows(context, loops[loops.size() - 3], nest.accesses, nest.iter(), along_iter, side);
  });
  return true;
}

/// Makes the best loop the innermost, and one with those outside of it that all accesses walk on along.
LoopRef make_one_walk(const RuleContext& context, const Nest& nest) {
  Schedule& schedule = context.schedule;
  LoopRef walk = nest.loop();
  if (nest.best + 1 < nest.loops.size()) {
    std::vector<LoopRef> order = nest.loops;
    const auto best = order.begin() + static_cast<std::ptrdiff_t>(nest.best);
    std::rotate(best, best + 1, order.end());
    reorder(schedule, order);
    return walk;
  }
  const OneWalk joined = find_one_walk(context, schedule.node(nest.ref), nest.accesses, nest.loops, nest.iters);
  for (size_t i = 0; i < joined.outer; ++i) walk = fuse(schedule, nest.loops[nest.best - 1 - i], walk);
  return walk;
}

/// Bodies of a short loop around vectors whose masks they know.
constexpr std::int64_t most_mask_bodies = 4;
/// The same of vectors each of which joins so many operands or more.
constexpr std::int64_t most_stacked_vectors = 8, most_stacked_share = 4;

/// Vectors of a cheap body that an iteration has, were the loop endless.
std::int64_t vectors_in_flight(const RuleContext& context, const Nest& nest, std::int64_t extent) {
  const Device& device = context.device;
  const bool far = !device.caches.empty() && footprint(nest.accesses, nest.iter(), extent) > device.caches[0].bytes;
  return std::clamp<std::int64_t>((far ? 2 : 1) * bits_in_flight / device.vector_bits, 1, most_vectors_in_flight);
}

/// Is working out where elements are gathered worth keeping?
bool has_costly_places(const Block& block, const std::vector<const Access*>& gathered) {
  double cost = 0;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    const bool found = load && std::any_of(gathered.begin(), gathered.end(),
                                           [&](const Access* access) { return access->buffer == load->buffer; });
    if (!found) return;
    for (const Expr& index : load->indices) cost += expression_cost(index);
  });
  return cost > costly_body;
}

/// The loop, as a position, that moves on by a step all that the vectors gather from costly places: channels of a map
/// that is sampled, whose places are worked out once for several of them. Nothing where there is none.
std::optional<size_t> loop_of_same_places(const RuleContext& context, const Nest& nest) {
  const Block& block = context.schedule.node(nest.ref);
  std::vector<const Access*> gathered;
  for (const Access& access : nest.accesses) {
    if (!access.strides[nest.iter()] && !access.store && !is_window(access, nest.iter(), context.device) &&
        !is_table(context, access, nest.iter()))
      gathered.push_back(&access);
  }
  if (gathered.empty() || !has_costly_places(block, gathered)) return std::nullopt;
  for (size_t i = nest.loops.size(); i-- > 0;) {
    const std::int64_t* extent = as_int(context.schedule.node(nest.loops[i]).extent);
    if (i != nest.best && extent && *extent > 1 &&
        std::all_of(gathered.begin(), gathered.end(),
                    [&](const Access* access) { return access->strides[nest.iters[i]].has_value(); }))
      return i;
  }
  return std::nullopt;
}

/// Moves iterations of the loop at `same` within `vectors`: as many as share places while what they read stays near.
void share_places(Schedule& schedule, const Nest& nest, size_t same, const LoopRef& vectors) {
  const std::int64_t extent = *as_int(schedule.node(nest.loops[same]).extent),
                     parts = rounded_up(extent, most_sharing_places) / most_sharing_places;
  std::int64_t shared = most_sharing_places;
  while (extent % shared != 0) --shared;
  if (2 * shared < most_sharing_places) shared = (extent + parts - 1) / parts;
  const auto [outer, inner] = split(schedule, nest.loops[same], shared);
  std::vector<LoopRef> order = nest.loops;
  order[same] = outer;
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(nest.best));
  order.insert(order.end(), {vectors, inner});
  reorder(schedule, order);
}

/// Is there a comparison of places that hangs on all of the iters?
bool chooses_by(const Block& block, const std::vector<size_t>& iters) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Binary* node = e.as<Binary>();
    found |=
        node && is_comparison(node->op) && node->a->dtype == i64 && !has_load(e) &&
        std::all_of(iters.begin(), iters.end(), [&](size_t i) { return uses_var(e, block.f.iters[i].variable.get()); });
  });
  return found;
}

/// The short loop around the vectors on which it hangs, beside them, which lanes a condition leaves: in a body for each
/// of its iterations that is known.
std::optional<LoopRef> loop_of_masks(const RuleContext& context, const Nest& nest) {
  if (nest.best == 0 || nest.best + 1 != nest.loops.size()) return std::nullopt;
  const Block& block = context.schedule.node(nest.ref);
  const std::int64_t* extent = as_int(context.schedule.node(nest.loops[nest.best - 1]).extent);
  if (!extent || *extent < 2 || *extent > most_mask_bodies) return std::nullopt;
  return chooses_by(block, {nest.iter(), nest.iters[nest.best - 1]}) ? std::optional(nest.loops[nest.best - 1])
                                                                     : std::nullopt;
}

/// The same of the loop that the block shares with what it reads there.
std::optional<LoopRef> shared_loop_of_masks(const RuleContext& context, const Nest& nest) {
  const std::vector<LoopRef> loops = context.schedule.loops(nest.ref);
  if (nest.loops.size() > 1 || loops.size() < 2) return std::nullopt;
  const Block& block = context.schedule.node(nest.ref);
  const LoopRef& shared = loops[loops.size() - 2];
  const For& node = context.schedule.node(shared);
  const std::int64_t* extent = as_int(node.extent);
  if (node.for_kind != ForKind::serial || !extent || *extent < 2 || *extent > most_mask_bodies) return std::nullopt;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.bindings[i] == Expr(node.variable) && chooses_by(block, {nest.iter(), i})) return shared;
  }
  return std::nullopt;
}

/// Are rows two vectors under masks of a choice, which are known where each has a body of its own (measured on Zen 4,
/// rows padded by two on either side: 24 floats 0.52 of the time, 74 bytes 0.2)?
bool has_two_masks(const Schedule& schedule, const Nest& nest, const std::int64_t* extent, std::int64_t width) {
  return extent && *extent > width && *extent < 2 * width && nest.best > 0 && nest.cost <= costly_body &&
         chooses_by(schedule.node(nest.ref), {nest.iter()});
}

/// Are there few vectors along an axis along which short operands are joined, as numbers that make a small matrix are?
/// Each is of few of them where it has a body of its own, which knows its masks.
bool stacks_in_vectors(const Schedule& schedule, const Nest& nest, const std::int64_t* extent, std::int64_t width) {
  if (!extent || *extent > most_stacked_vectors * width) return false;
  const std::optional<JoinedAxis> joined = joined_axis(schedule.node(nest.ref));
  return joined && joined->iter == nest.iter() &&
         static_cast<std::int64_t>(joined->operands) * width >= most_stacked_share * *extent;
}

/// Do masks of what the vectors walk take a branch for each lane?
bool masks_by_branches(const Device& device, const Nest& nest) {
  return std::any_of(nest.accesses.begin(), nest.accesses.end(), [&](const Access& access) {
    return access.strides[nest.iter()] != 0 && masks_by_branches(device, access.buffer->dtype);
  });
}

void vectorize_nest(RuleContext& context, const Nest& nest) {
  Schedule& schedule = context.schedule;
  const std::optional<size_t> same = loop_of_same_places(context, nest);
  const std::optional<LoopRef> around = loop_of_masks(context, nest), shared = shared_loop_of_masks(context, nest);
  const LoopRef walk = make_one_walk(context, nest);
  std::optional<LoopRef> masks = walk == nest.loop() ? around : std::nullopt;  // else it may be joined
  const Expr extent = schedule.node(walk).extent;
  const std::int64_t* constant_extent = as_int(extent);
  const std::optional<std::int64_t> most = greatest_extent(extent, schedule.func());
  if (most && *most < 2) return;
  const bool windows = std::any_of(nest.accesses.begin(), nest.accesses.end(), [&](const Access& access) {
    return is_window(access, nest.iter(), context.device);
  });
  std::int64_t width = streaming_lanes(context, nest.ref, nest.accesses, nest.iter());
  std::int64_t copies = nest.cost > costly_body || windows || asserts(schedule.node(nest.ref))
                            ? 1
                            : vectors_in_flight(context, nest, extent_estimate(extent, schedule.func()->facts));
  if (most) {
    while (copies > 1 && width * copies * least_iterations > *most) copies /= 2;
    if (*most < width) width = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(*most)));
  }
  // A row of few elements is faster one by one than in a vector that has most lanes off.
  const bool by_lanes =
      !constant_extent && (gathers(context, nest.accesses, nest.iter()) || scatters(nest.accesses, nest.iter()));
  if (by_lanes && (most || nest.cost <= function_body)) width = std::min(width, most_placed_lanes);
  const auto squares = lanes_of_squares(context, schedule.node(nest.ref), nest.accesses, nest.iter());
  if (squares) width = std::min(width, *squares);
  if (width < 2) return;
  // Places that elements are picked from fill the scalar registers.
  if (!windows && !asserts(schedule.node(nest.ref)) && !gathers(context, nest.accesses, nest.iter()))
    width = function_lanes(context.device, nest.cost, width, most);
  const auto [blocks_of, rest] = split(schedule, walk, width * copies);
  // Which lanes are picked is worked out once for the rows of a column of vectors.
  if (windows && nest.best > 0) {
    reorder(schedule, {blocks_of, nest.best + 1 < nest.loops.size() ? nest.loops.back() : nest.loops[nest.best - 1]});
  } else if (same && copies == 1) {
    share_places(schedule, nest, *same, blocks_of);
    masks.reset();  // it may be the one whose iterations share places
  } else if (masks) {
    reorder(schedule, {blocks_of, *masks});
  }
  if (shared) unroll(schedule, *shared);
  if (masks || shared) {
    if (masks) unroll(schedule, *masks);
    if (most && *most <= most_mask_bodies * width) unroll(schedule, blocks_of);
  } else if (copies == 1 && walk == nest.loop() &&
             (has_two_masks(schedule, nest, constant_extent, width) ||
              stacks_in_vectors(schedule, nest, constant_extent, width))) {
    unroll(schedule, blocks_of);
  }
  // A function's body is long to compile a second time: the last vector moves back over the one before it.
  if (constant_extent && nest.cost > function_body && *constant_extent % width != 0 &&
      *constant_extent >= width * least_shifted)
    annotate(schedule, blocks_of, shift_last_key, 1);
  LoopRef lanes = rest;
  if (copies > 1) {
    const auto [copy, lane] = split(schedule, rest, width);
    unroll(schedule, copy);
    lanes = lane;
  }
  vectorize(schedule, lanes);
  if (by_lanes || (!constant_extent && nest.cost <= costly_body && masks_by_branches(context.device, nest)))
    annotate(schedule, lanes, unmasked_key, 1);
}

/// Does the block look up a table by narrow integers, and nothing else? Vectors of them would be taken apart again,
/// place by place (measured on Zen 4, tables of 256 by bytes: 0.78 to 0.87 of the time). What bounds wider ones takes
/// longer for each (1.3).
bool looks_up_alone(const Block& block) {
  const Store* store = block.f.body.as<Store>();
  const Load* load = store ? store->value.as<Load>() : nullptr;
  if (!load || load->indices.size() != 1) return false;
  bool narrow = false, other = false;
  for_each_expr(load->indices[0], [&](const Expr& e) {
    narrow |= e.as<Load>() && e->dtype.is_integer() && e->dtype.bits <= 16;
    other |= e->dtype.is_float() || (e.as<Load>() && e->dtype.bits > 16);
  });
  return narrow && !other;
}

/// Elements one by one, a few an iteration, but where a condition of their loops would stand before each. Of a row of a
/// few all are, and a few rows (measured on Zen 4, 2x100x2x50 of bf16 read backwards: 0.33 of the time, 8x3x64x64 from
/// 0 1 2 3 to 0 3 2 1 0.22).
void unroll_picks(RuleContext& context, const Nest& nest) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(nest.ref);
  if (nest.best + 1 < nest.loops.size() || asserts(block)) return;
  if (block.f.predicate && uses_var(block.f.predicate, nest.loop().variable.get())) return;
  size_t walk = nest.best;
  const std::int64_t* row = as_int(schedule.node(nest.loop()).extent);
  if (row && *row <= picks_in_flight) {
    const std::string decision = fmt::format("pick {} of {} at once", *row, nest.ref.name);
    if (*row > 1) attempt(context, decision, [&] { unroll(schedule, nest.loop()); });
    if (walk-- == 0) return;
  }
  const auto extent = greatest_extent(schedule.node(nest.loops[walk]).extent, schedule.func());
  if (extent && *extent < least_iterations * picks_in_flight) return;
  attempt(context, fmt::format("pick {} of {} at once", picks_in_flight, nest.ref.name),
          [&] { unroll(schedule, split(schedule, nest.loops[walk], picks_in_flight).second); });
}

void lay_vectors(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  while (join_short_turned(context, ref) || join_woven_rows(context, ref)) {
  }
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> loops = own_loops(schedule, ref);
  const std::optional<std::vector<size_t>> iters = bound_iters(block, loops);
  const bool serial = std::all_of(loops.begin(), loops.end(),
                                  [&](const LoopRef& loop) { return schedule.node(loop).for_kind == ForKind::serial; });
  if (!iters || !serial || loops.empty()) return;
  const Accesses accesses = block_accesses(block);
  if (weave_vectors(context, ref, accesses, loops, *iters)) return;
  const VectorLoop choice = choose_vector_loop(context, ref, accesses, loops, *iters, ShortRows::filled);
  const double cost = body_cost(block);
  // Where all that is read lies across what is written, results are turned around as one operand is.
  if (scatters(accesses, (*iters)[choice.loop])) {
    for (size_t i = loops.size(); i-- > 0;) {
      if (stores_in_a_row(accesses, (*iters)[i]) && turn(context, {ref, accesses, loops, *iters, i, cost})) return;
    }
  }
  if (!choice.vectors) {
    context.note(fmt::format("keep {} scalar: no loop is contiguous in most accesses", ref.name));
    return;
  }
  const Nest nest{ref, accesses, loops, *iters, choice.loop, cost};
  if (turn(context, nest)) return;
  const bool picks = gathers(context, accesses, nest.iter());
  if (picks && pick_rows(context, ref, accesses, loops, *iters, nest.best)) return;
  if (picks && (nest.cost <= copy_body || looks_up_alone(block))) {
    context.note(fmt::format("keep {} scalar: it does nothing but gather", ref.name));
    return unroll_picks(context, nest);
  }
  if ((picks || scatters(accesses, nest.iter())) && choice.cost >= nest.cost) {
    context.note(fmt::format("keep {} scalar: it computes less than it takes to gather", ref.name));
    return share_lines(context, ref, accesses, loops, *iters);
  }
  if (choice.loop + 1 == loops.size() && repeat_rows(context, ref, accesses, loops, *iters)) return;
  attempt(context, fmt::format("vectorize {} over {}", ref.name, nest.loop().variable->name),
          [&] { vectorize_nest(context, nest); });
}

}  // namespace

void vectorize_block(RuleContext& context, const BlockRef& ref) {
  lay_vectors(context, ref);
  context.scheduled.insert(ref.name);
}

double elementwise_cost(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> loops = own_loops(schedule, ref);
  const std::optional<std::vector<size_t>> iters = bound_iters(block, loops);
  // Places that no step leads to are worked out, lane by lane or in scalars.
  double divisions = 0;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Binary* node = e.as<Binary>();
    if (node && node->dtype == i64 && (node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod))
      divisions += division_cost;
  });
  const Accesses accesses = block_accesses(block);
  const double cost =
      iters && !loops.empty() ? choose_vector_loop(context, ref, accesses, loops, *iters).cost : body_cost(block);
  return cost + divisions;
}

void vectorize_elementwise(RuleContext& context) {
  for (const BlockRef& ref : context.schedule.blocks()) {
    const Block& block = context.schedule.node(ref);
    if (context.scheduled.contains(ref.name) || !only_space(block) || has_blocks(block) || stores_vectors(block))
      continue;
    if (!check_ahead(context, ref)) vectorize_block(context, ref);
  }
}

}  // namespace lathe
