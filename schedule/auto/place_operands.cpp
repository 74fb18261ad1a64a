#include "schedule/auto/place_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/analysis/affine.h"
#include "ir/buffer.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/cut_choices.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/slide_copies.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/split_iter.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Rows ahead for which the copy of a panel asks, and the distance of rows in bytes from which on hardware does not do
/// so (measured on Cascade Lake, panels of 64 columns of 1024 x 1024 that come from beyond the second cache: 14 ns a
/// line in the place of 60; 4 to 32 rows are alike).
constexpr std::int64_t copied_ahead = 8, least_jump = 1024;

/// Does a condition of the block compare a sum of iters? Its loops would not end where the border begins.
bool chooses_by_sums(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Binary* node = e.as<Binary>();
    if (!node || !is_comparison(node->op)) return;
    found |= std::count_if(block.f.iters.begin(), block.f.iters.end(),
                           [&](const Iter& iter) { return uses_var(e, iter.variable.get()); }) > 1;
  });
  return found;
}

/// Does the copy store element by element along the loop?
bool stores_along(const Block& copy, const LoopRef& loop) {
  const Accesses accesses = block_accesses(copy);
  for (size_t i = 0; i < copy.f.iters.size(); ++i) {
    if (!uses_var(copy.f.bindings[i], loop.variable.get())) continue;
    return std::any_of(accesses.begin(), accesses.end(),
                       [&](const Access& access) { return access.store && access.strides[i] == 1; });
  }
  return false;
}

/// Makes the loop that walks along what is written the innermost, and returns the copy's own.
std::vector<LoopRef> walk_innermost(Schedule& schedule, const BlockRef& copy) {
  std::vector<LoopRef> loops = own_loops(schedule, copy);
  const auto columns = std::find_if(loops.begin(), loops.end(),
                                    [&](const LoopRef& loop) { return stores_along(schedule.node(copy), loop); });
  if (columns != loops.end() && columns + 1 != loops.end()) {
    std::rotate(columns, columns + 1, loops.end());
    reorder(schedule, loops);
  }
  return loops;
}

/// Fills a padded operand before it is copied, as many of its last dimensions at a time as stay in the first cache: a
/// copy that chooses at each element between it and the padding takes longer than both.
void fill_first(RuleContext& context, const BlockRef& maker) {
  Schedule& schedule = context.schedule;
  const std::vector<CacheLevel>& caches = context.device.caches;
  const std::int64_t room = caches.empty() ? 0 : caches.front().bytes / 2;
  const std::vector<LoopRef> loops = walk_innermost(schedule, maker);
  std::int64_t bytes = schedule.node(maker).f.writes[0].buffer->dtype.bytes();
  size_t first = loops.size();
  while (first > 0) {
    bytes *= extent_estimate(schedule.node(loops[first - 1]).extent, schedule.func()->facts);
    if (bytes > room && first < loops.size()) break;
    --first;
  }
  if (first < loops.size()) decompose_padding(context.schedule, maker, loops[first]);
}

/// Is the operand read at quotients and remainders, as joined rows are?
bool reads_joined_rows(const Block& reduction, const std::string& operand) {
  bool divided = false;
  for (const Region& read : reduction.f.reads) {
    for (const Range& range : read.ranges) {
      const Binary* node = read.buffer->name == operand ? range.min.as<Binary>() : nullptr;
      divided |= node && (node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod);
    }
  }
  return divided;
}

/// A copy of the operand, as it lies; of joined rows, whose panels are no boxes, by the reduction's own iters.
BlockRef panel_copy(Schedule& schedule, const BlockRef& reduction, const Buffer& operand, size_t vectors) {
  const Block& block = schedule.node(reduction);
  if (!reads_joined_rows(block, operand->name)) {
    const Load* load = load_along(block, operand, {vectors});
    return cache_read(schedule, reduction, operand->name, space::global, load ? place_of(block, *load) : std::nullopt);
  }
  const BlockRef copy = reindex(schedule, reduction, operand->name);
  const Buffer copied = schedule.node(copy).f.writes[0].buffer;
  const Block& reader = schedule.node(reduction);
  const Load* load = load_of(reader, copied);
  const auto last = std::find(load->indices.begin(), load->indices.end(), Expr(reader.f.iters[vectors].variable));
  const LayoutMap map = last == load->indices.end()
                            ? same_layout(copied->rank())
                            : moved_last(copied->rank(), static_cast<size_t>(last - load->indices.begin()));
  transform_layout(schedule, reduction, copied->name, map);
  return copy;
}

/// Does the iter `vectors` alone walk the operand's last dimension?
bool walks_last(const Block& reduction, const Buffer& operand, size_t vectors) {
  const Load* load = load_along(reduction, operand, {vectors});
  return load && load->indices.back() == Expr(reduction.f.iters[vectors].variable);
}

/// The same, by more than one panel?
bool walks_panels(const Block& reduction, const Buffer& operand, size_t vectors, std::int64_t width) {
  const std::int64_t* columns = as_int(operand->shape.back());
  return columns && *columns > width && walks_last(reduction, operand, vectors);
}

/// How many elements ahead a copy of a panel asks for the rows that `loop` goes on with; nothing where hardware
/// follows, or they are near.
std::optional<std::int64_t> rows_ahead(const RuleContext& context, const BlockRef& ref, const LoopRef& loop) {
  if (!lacks_issue_slots(context.device)) return std::nullopt;
  const Block& copy = context.schedule.node(ref);
  for (const Access& access : block_accesses(copy)) {
    const std::int64_t bytes = access.buffer->dtype.bytes();
    if (access.store ||
        2 * bytes * estimated_elements(access.buffer) <= static_cast<double>(own_cache_bytes(context.device)))
      continue;
    for (size_t i = 0; i < copy.f.iters.size(); ++i) {
      const std::int64_t step = access.strides[i].value_or(0);
      if (copy.f.bindings[i] == Expr(loop.variable) && step * bytes >= least_jump) return copied_ahead * step;
    }
  }
  return std::nullopt;
}

/// Would an iteration of the loop read less than a vector of each row that is made, of elements for which there are no
/// masks, as of bytes with AVX2? Lane by lane they take longer than a copy of whole rows.
bool makes_parts_of_vectors(const RuleContext& context, const Block& maker, const LoopRef& loop) {
  const auto by_branches = [&](const Region& read) { return masks_by_branches(context.device, read.buffer->dtype); };
  if (std::none_of(maker.f.reads.begin(), maker.f.reads.end(), by_branches)) return false;
  const Region region = region_read(context.schedule, maker, loop);
  if (region.ranges.empty()) return false;
  const std::int64_t columns = extent_estimate(region.ranges.back().extent, context.schedule.func()->facts);
  return columns < vector_lanes(maker, context.device) && columns < extent_estimate(region.buffer->shape.back());
}

/// Do vectors of so many lanes that a copy stores begin at multiples of these in its last dimension? Others straddle
/// the ends of panels, and are stored in two parts.
bool begins_at_multiples(const Block& copy, std::int64_t lanes) {
  const Affine place = to_affine(copy.f.writes[0].ranges.back().min);
  return std::all_of(place.terms.begin(), place.terms.end(),
                     [&](const AffineTerm& term) { return term.coefficient == 1 || term.coefficient % lanes == 0; });
}

}  // namespace

bool copies_by_panels(const Block& reduction, const Buffer& operand, size_t vectors) {
  return walks_last(reduction, operand, vectors) || reads_joined_rows(reduction, operand->name);
}

LayoutMap panel_layout(size_t rank, std::int64_t width, size_t panels, std::optional<size_t> cut) {
  LayoutMap map = same_layout(rank);
  Expr& within = map.to[cut.value_or(rank - 1)];
  const Expr whole = within;
  within = floor_mod(whole, width);
  map.to.insert(map.to.begin() + static_cast<std::ptrdiff_t>(panels), floor_div(whole, width));
  return map;
}

void place_makers(RuleContext& context, const BlockRef& reduction, std::vector<LoopRef>& around, const BlockRef& kept) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& maker : schedule.producers(reduction)) {
    const Block& block = schedule.node(maker);
    if (maker == kept || block.f.reducer || context.scheduled.contains(maker.name) ||
        schedule.consumers(maker).size() != 1 || fusion_wish(block) == FusionWish::apart || is_sealed(block))
      continue;
    if (slide_copy(context, maker, reduction, around)) continue;
    for (size_t depth = around.size(); depth-- > 0;) {
      if (is_int(schedule.node(around[depth]).extent, 1) ||
          repetition(schedule, block, around, depth) > most_repetition ||
          costs_squares(context, maker, around[depth]) || parts_operands(schedule, maker, around[depth]) ||
          makes_parts_of_vectors(context, block, around[depth]) || checks_few(context, block, around[depth]) ||
          cuts_edges_off(context, block, around[depth]))
        continue;
      attempt(context, fmt::format("compute {} under {}", maker.name, around[depth].variable->name),
              [&] { compute_at(schedule, maker, around[depth]); });
      break;
    }
    if (!chooses_by_sums(schedule.node(maker)))
      attempt(context, fmt::format("fill the border of {}", maker.name), [&] { fill_first(context, maker); });
  }
}

bool pack_panel(RuleContext& context, const BlockRef& reduction, const Buffer& operand, size_t vectors,
                std::int64_t lanes, const LoopRef& panels, std::int64_t width) {
  Schedule& schedule = context.schedule;
  return attempt(context, fmt::format("pack {} of {}", width > 0 ? "groups of panels" : "panels", operand->name), [&] {
    const BlockRef copy = panel_copy(schedule, reduction, operand, vectors);
    compute_at(schedule, copy, panels);
    const std::vector<LoopRef> loops = walk_innermost(schedule, copy);
    if (width > 0) {
      const Buffer packed = schedule.node(copy).f.writes[0].buffer;
      transform_layout(schedule, reduction, packed->name, panel_layout(packed->rank(), width, 0));
    }
    if (loops.size() > 1) {
      if (const auto ahead = rows_ahead(context, copy, loops[loops.size() - 2]))
        annotate(schedule, loops[loops.size() - 2], "prefetch_offset", *ahead);
    }
    vectorize_columns(schedule, loops.back(), lanes);
    context.scheduled.insert(copy.name);
  });
}

std::optional<BlockRef> copy_for_panels(const RuleContext& context, const BlockRef& reduction, const Buffer& operand,
                                        size_t vectors, std::int64_t width) {
  const Schedule& schedule = context.schedule;
  if (!walks_panels(schedule.node(reduction), operand, vectors, width)) return std::nullopt;
  for (const BlockRef& copy : schedule.producers(reduction)) {
    if (schedule.node(copy).f.writes[0].buffer != operand) continue;
    const std::vector<LoopRef> loops = own_loops(schedule, copy);
    const std::int64_t* lanes = loops.empty() ? nullptr : as_int(schedule.node(loops.back()).extent);
    const bool fits = context.scheduled.contains(copy.name) && schedule.consumers(copy).size() == 1 && lanes &&
                      width % *lanes == 0 && begins_at_multiples(schedule.node(copy), *lanes);
    return fits ? std::optional(copy) : std::nullopt;
  }
  return std::nullopt;
}

bool lay_by_panels(RuleContext& context, const BlockRef& reduction, const Buffer& operand, size_t vectors,
                   std::int64_t width) {
  if (!copy_for_panels(context, reduction, operand, vectors, width)) return false;
  return attempt(context, fmt::format("lay {} out by panels of {} for {}", operand->name, width, reduction.name), [&] {
    transform_layout(context.schedule, reduction, operand->name, panel_layout(operand->rank(), width, 0));
  });
}

void make_by_panels(RuleContext& context, const BlockRef& reduction, const Buffer& operand, size_t vectors,
                    std::int64_t lanes, std::int64_t width) {
  Schedule& schedule = context.schedule;
  if (!walks_panels(schedule.node(reduction), operand, vectors, width)) return;
  for (const BlockRef& maker : schedule.producers(reduction)) {
    if (schedule.node(maker).f.writes[0].buffer != operand || context.scheduled.contains(maker.name)) continue;
    const std::vector<LoopRef> loops = own_loops(schedule, maker);
    if (loops.empty() || !stores_along(schedule.node(maker), loops.back())) continue;
    attempt(context, fmt::format("make {} by panels of {} for {}", operand->name, width, reduction.name), [&] {
      vectorize_columns(schedule, loops.back(), lanes);
      transform_layout(schedule, reduction, operand->name, panel_layout(operand->rank(), width, 0));
      context.scheduled.insert(maker.name);
    });
  }
}

void lay_copy_by_panels(RuleContext& context, const BlockRef& reduction, const BlockRef& copy, size_t columns,
                        std::int64_t width) {
  Schedule& schedule = context.schedule;
  const Block& reader = schedule.node(reduction);
  const Buffer buffer = schedule.node(copy).f.writes[0].buffer;
  const Load* load = load_of(reader, buffer);
  const std::int64_t* extent = as_int(buffer->shape.back());
  if (!load || buffer->rank() < 2 || load->indices.back() != Expr(reader.f.iters[columns].variable) || !extent ||
      *extent <= width || *extent % width != 0)
    return;
  const auto stored = iter_at(schedule.node(copy), schedule.node(copy).f.writes[0].ranges.back().min);
  const std::optional<LoopRef> loop = stored ? loop_of_iter(schedule, copy, *stored) : std::nullopt;
  if (!loop) return;
  attempt(context, fmt::format("lay {} out by panels of {} for {}", buffer->name, width, reduction.name), [&] {
    split_iter(schedule, copy, *loop, width);
    transform_layout(schedule, reduction, buffer->name, panel_layout(buffer->rank(), width, buffer->rank() - 2));
  });
}

void vectorize_columns(Schedule& schedule, const LoopRef& loop, std::int64_t lanes) {
  const std::int64_t* extent = as_int(schedule.node(loop).extent);
  // LLVM takes vectors of 15 lanes apart, where an instruction has 16.
  const auto width = extent ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(*extent))) : lanes;
  if (extent && *extent == width && width <= lanes) return vectorize(schedule, loop);
  const auto [vectors, lane] = split(schedule, loop, std::min(width, lanes));
  unroll(schedule, vectors);
  vectorize(schedule, lane);
}

}  // namespace lathe
