#include "schedule/auto/fuse_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/feed_in_order.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/vectorize_tuples.h"
#include "schedule/auto/weave_vectors.h"
#include "schedule/carried.h"
#include "schedule/complete.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/required_region.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Vectors of indices that are checked together with all others.
constexpr double few_checked_vectors = 4;
/// Vectors that readers walk in less time than a function of one element takes (measured on Zen 4, states of a Mamba of
/// 768 to 6144 channels by 16, whose steps are a function of each channel: 0.25 of the time).
constexpr double most_vectors_beside = 8;

/// Of rows below this length, stages one after another wait for each other's results, while in loops of their own rows
/// overlap, and what is computed once a row fills vectors.
constexpr double short_row = 12;

/// The loops around all the blocks, outermost first.
std::vector<LoopRef> common_loops(const Schedule& schedule, const std::vector<BlockRef>& blocks) {
  std::vector<LoopRef> common = schedule.loops(blocks.front());
  for (const BlockRef& block : blocks) {
    const std::vector<LoopRef> loops = schedule.loops(block);
    const auto [end, other] = std::mismatch(common.begin(), common.end(), loops.begin(), loops.end());
    common.erase(end, common.end());
  }
  return common;
}

bool can_move(const Schedule& schedule, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  if (block.f.writes.empty() || has_blocks(block)) return false;
  for (const Region& region : block.f.writes) {
    if (!is_allocated(schedule.func(), region.buffer)) return false;
  }
  const Path path = path_to(schedule, ref);
  return own_loops(schedule, ref).size() == loops_of(path).size() && why_incomplete(path).empty() &&
         why_not_pointwise(block).empty();
}

/// Are the iterations of the loops down to `depth` short, and enough to fill a vector?
bool has_short_rows(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers,
                    const std::vector<LoopRef>& loops, size_t depth) {
  const Schedule& schedule = context.schedule;
  const std::vector<Fact>& facts = schedule.func()->facts;
  double most = instance_count(schedule.node(ref), facts), rows = 1;
  for (const BlockRef& reader : readers) most = std::max(most, instance_count(schedule.node(reader), facts));
  for (size_t i = 0; i <= depth; ++i)
    rows *= static_cast<double>(extent_estimate(schedule.node(loops[i]).extent, facts));
  return most < short_row * rows && rows >= vector_lanes(schedule.node(ref), context.device);
}

/// Do all buffers of the block and its readers stay in half of the first cache? Then nothing is gained by a row's
/// staying near.
bool stays_near(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers) {
  const Schedule& schedule = context.schedule;
  const std::vector<CacheLevel>& caches = context.device.caches;
  if (caches.empty()) return false;
  std::vector<const Block*> blocks{&schedule.node(ref)};
  for (const BlockRef& reader : readers) blocks.push_back(&schedule.node(reader));
  return 2 * bytes_of_buffers(blocks, schedule.func()->facts) <= static_cast<double>(caches[0].bytes);
}

/// Would the block stand in the innermost loop of a reader, which its check of an index would cost the vectors? A sum
/// and a function gain by them wherever the places then lie, as does what looks up a table in registers, and what does
/// a little where a row of these stays near.
bool costs_vectors(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers,
                   const std::vector<LoopRef>& loops, size_t depth) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (!asserts(block)) return false;
  const std::vector<CacheLevel>& caches = context.device.caches;
  const bool near = depth > 0 && !caches.empty() &&
                    2 * live_bytes(schedule, block, loops[depth - 1]) <= static_cast<double>(caches[0].bytes);
  return std::any_of(readers.begin(), readers.end(), [&](const BlockRef& reader_ref) {
    const Block& reader = schedule.node(reader_ref);
    const bool in_order = std::any_of(reader.f.iters.begin(), reader.f.iters.end(), [](const Iter& iter) {
      return iter.kind == IterKind::ordered || iter.kind == IterKind::opaque;
    });
    return schedule.loops(reader_ref).back() == loops[depth] && !in_order &&
           (reader.f.reducer || body_cost(reader) > (near ? copy_body : costly_body) || looks_up(context, reader));
  });
}

/// Rows of a few places that are checked in vectors before elements are found by them.
constexpr std::int64_t rows_of_block = 64;

/// Does the block check a few places in each iteration of the loop, by which reductions find elements one by one? They
/// would wait for what a vector has stored under a mask (measured on Zen 4: rows of 3 to 11 places 0.25 to 0.87 of the
/// time block by block).
bool checks_short_rows(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers,
                       const std::vector<LoopRef>& loops, size_t depth) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<Fact>& facts = schedule.func()->facts;
  if (!asserts(block) || !only_space(block)) return false;
  double made = instance_count(block, facts);
  for (size_t i = 0; i <= depth; ++i)
    made /= static_cast<double>(extent_estimate(schedule.node(loops[i]).extent, facts));
  return made > 1 && made < 2 * vector_lanes(block, context.device) &&
         std::all_of(
             readers.begin(), readers.end(),
             [&](const BlockRef& reader) {
               return schedule.node(reader).f.reducer && !looks_up(context, schedule.node(reader));
             });
}

/// Would the block stand within what a reader folds, whose innermost loop folds too? With another block there its
/// partial results could not be kept apart, a lane each.
bool costs_lanes(const Schedule& schedule, const std::vector<BlockRef>& readers, const LoopRef& loop) {
  return std::any_of(readers.begin(), readers.end(), [&](const BlockRef& ref) {
    const Block& reader = schedule.node(ref);
    return reader.f.reducer && drives(reader, IterKind::reduce, schedule.node(loop)) &&
           drives(reader, IterKind::reduce, schedule.node(schedule.loops(ref).back()));
  });
}

/// Would the block, element-wise as its readers are, give a loop that vectors could lie along an element of its own, as
/// that over pixels around a few channels, or a few beside rows that are woven? Beside it those channels would be all
/// that vectors have.
bool costs_columns(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers,
                   const std::vector<LoopRef>& loops, size_t depth) {
  const Schedule& schedule = context.schedule;
  const std::vector<Fact>& facts = schedule.func()->facts;
  const Block& block = schedule.node(ref);
  const double lanes = vector_lanes(block, context.device);
  double rows = 1;
  for (size_t i = 0; i <= depth; ++i)
    rows *= static_cast<double>(extent_estimate(schedule.node(loops[i]).extent, facts));
  const double made = instance_count(block, facts) / rows;  // for a row
  if (!only_space(block) || asserts(block) ||
      static_cast<double>(extent_estimate(schedule.node(loops[depth]).extent, facts)) < lanes)
    return false;
  return std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader_ref) {
    const Block& reader = schedule.node(reader_ref);
    const double inside = instance_count(reader, facts) / rows;
    if (!only_space(reader)) return false;
    // A function in the innermost loop of another block would be evaluated by itself.
    if (made == 1 && inside == 1 && body_cost(block) >= function_body) return true;
    if (made == 1 && 1 < inside && inside < lanes) return true;
    return made < lanes && inside <= static_cast<double>(most_stacked) && weaves_rows(context, reader_ref);
  });
}

/// Is the loop, or one around it, unrolled, as those over a tile are?
bool is_unrolled(const Schedule& schedule, const std::vector<LoopRef>& loops, size_t depth) {
  return std::any_of(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(depth) + 1,
                     [&](const LoopRef& loop) { return schedule.node(loop).for_kind == ForKind::unrolled; });
}

double bytes_of_whole(const Schedule& schedule, const Block& block) {
  const Buffer& buffer = block.f.writes[0].buffer;
  return static_cast<double>(buffer->dtype.bytes()) * estimated_elements(buffer, schedule.func()->facts);
}

/// Do all readers, element-wise, lie across what the block leaves, so that squares are to turn it around?
bool is_turned(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers) {
  const Schedule& schedule = context.schedule;
  const Buffer& left = schedule.node(ref).f.writes[0].buffer;
  return std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader_ref) {
    const Block& reader = schedule.node(reader_ref);
    const std::int64_t side = widest_square(reader, context.device);
    if (side < 2 || !only_space(reader)) return false;
    std::vector<Access> accesses;
    for (const Access& access : block_accesses(reader)) {
      if (access.store || access.buffer == left) accesses.push_back(access);
    }
    bool from = false, to = false;
    for (size_t i = 0; i < reader.f.iters.size(); ++i) {
      if (extent_estimate(reader.f.iters[i].domain.extent) < side) continue;
      const bool loads = lies_along(accesses, i, false), stores = lies_along(accesses, i, true);
      // What stands still is read for all of them.
      const bool moves =
          std::none_of(accesses.begin(), accesses.end(), [&](const Access& access) { return access.strides[i] == 0; });
      from |= loads && !stores;
      to |= stores && !loads && moves;
    }
    return from && to;
  });
}

/// Would rows no longer overlap whose tuples, such as a value and its index, a reader reduces (vectorize_tuples)?
/// They do where nothing else stands in their loop, and are short or joined of operands: argmax of 280 joined rows of
/// 42 takes 15 times as long otherwise.
bool costs_row_groups(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers) {
  const Schedule& schedule = context.schedule;
  const bool joins = joined_axis(schedule.node(ref)).has_value();
  return std::any_of(readers.begin(), readers.end(), [&](const BlockRef& reader) {
    const Block& block = schedule.node(reader);
    return block.f.reducer && block.f.writes.size() > 1 && (joins || takes_rows_side_by_side(block, context.device));
  });
}

/// Would the block evaluate a function, more than a quotient or a root, for one element in each iteration, in which
/// readers do less than that takes, of arrays that a core's own caches hold?
bool evaluates_alone(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers,
                     const LoopRef& loop) {
  const Schedule& schedule = context.schedule;
  const std::vector<Fact>& facts = schedule.func()->facts;
  const Block& block = schedule.node(ref);
  const auto lanes = static_cast<double>(vector_lanes(block, context.device));
  const auto near = static_cast<double>(own_cache_bytes(context.device));
  const double all = instance_count(block, facts), bytes = block.f.writes[0].buffer->dtype.bytes();
  if (body_cost(block) < 2 * function_body || all < lanes || live_bytes(schedule, block, loop) > bytes) return false;
  return std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader) {
    const double read = instance_count(schedule.node(reader), facts);
    return !schedule.node(reader).f.reducer && read <= all * lanes * most_vectors_beside && read * bytes <= near;
  });
}

/// Would the block, element-wise as its readers are, evaluate a function for so few elements in each iteration that
/// they leave most lanes idle, as parts of joined rows do? All of its rows together fill vectors.
bool idles_functions(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& readers,
                     const LoopRef& loop) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (!only_space(block) || asserts(block) || body_cost(block) < function_body) return false;
  if (evaluates_alone(context, ref, readers, loop)) return true;
  if (!std::all_of(readers.begin(), readers.end(),
                   [&](const BlockRef& reader) { return only_space(schedule.node(reader)); }))
    return false;
  const double inside = live_bytes(schedule, block, loop) / block.f.writes[0].buffer->dtype.bytes();
  const auto lanes = static_cast<double>(vector_lanes(block, context.device));
  return 1 < inside && 2 * inside <= lanes && instance_count(block, schedule.func()->facts) >= lanes;
}

}  // namespace

Region region_read(const Schedule& schedule, const Block& block, const LoopRef& loop) {
  const Path path = path_to(schedule, loop);
  return required_region(block, path.back(), bounds_at(schedule.func(), path)).region;
}

double live_bytes(const Schedule& schedule, const Block& block, const LoopRef& loop) {
  const Region region = region_read(schedule, block, loop);
  const std::vector<Fact>& facts = schedule.func()->facts;
  double bytes = static_cast<double>(region.buffer->dtype.bytes());
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    bytes *= static_cast<double>(
        std::min(extent_estimate(region.buffer->shape[d], facts), extent_estimate(region.ranges[d].extent, facts)));
  }
  return bytes;
}

double repetition(const Schedule& schedule, const Block& block, const std::vector<LoopRef>& loops, size_t depth) {
  const std::vector<Fact>& facts = schedule.func()->facts;
  double computed = 1, needed = 1;
  for (size_t i = 0; i <= depth; ++i)
    computed *= static_cast<double>(extent_estimate(schedule.node(loops[i]).extent, facts));
  const Region region = region_read(schedule, block, loops[depth]);
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const std::int64_t whole = extent_estimate(region.buffer->shape[d], facts);
    computed *= static_cast<double>(std::min(whole, extent_estimate(region.ranges[d].extent, facts)));
    needed *= static_cast<double>(whole);
  }
  return computed / std::max(needed, 1.0);
}

std::vector<LoopRef> loops_of_parts(const RuleContext& context, const BlockRef& block, const BlockRef& reader,
                                    double most) {
  const Schedule& schedule = context.schedule;
  const Block& reads = schedule.node(reader);
  const std::vector<LoopRef> loops = schedule.loops(reader);
  std::vector<LoopRef> found;
  double iterations = 1;
  for (size_t depth = 0; depth < loops.size(); ++depth) {
    const For& loop = schedule.node(loops[depth]);
    const bool outer = (loop.for_kind == ForKind::serial || loop.for_kind == ForKind::parallel) &&
                       !drives(reads, IterKind::reduce, loop);
    if (!outer || repetition(schedule, schedule.node(block), loops, depth) > most) break;
    iterations *= static_cast<double>(extent_estimate(loop.extent, schedule.func()->facts));
    if (!is_int(loop.extent, 1) && iterations >= context.device.cores) found.push_back(loops[depth]);
  }
  return found;
}

bool costs_squares(const RuleContext& context, const BlockRef& ref, const LoopRef& loop) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (!only_space(block) || body_cost(block) > copy_body) return false;
  const std::int64_t side = widest_square(block, context.device);
  const Accesses accesses = block_accesses(block);
  const auto turns = [&](size_t iter) {
    return lies_along(accesses, iter, false) != lies_along(accesses, iter, true) &&
           extent_estimate(block.f.iters[iter].domain.extent) >= side;
  };
  bool reads = false, shortened = false;
  for (size_t i = 0; side > 1 && i < block.f.iters.size(); ++i) reads |= turns(i) && lies_along(accesses, i, false);
  if (!reads) return false;
  const Region region = region_read(schedule, block, loop);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (!turns(i)) continue;
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const std::int64_t* extent = as_int(region.ranges[d].extent);
      shortened |= block.f.writes[0].ranges[d].min == Expr(block.f.iters[i].variable) && extent && *extent < side;
    }
  }
  return shortened;
}

bool checks_few(const RuleContext& context, const Block& block, const LoopRef& loop) {
  if (!asserts(block) || !only_space(block)) return false;
  const double few = live_bytes(context.schedule, block, loop) / block.f.writes[0].buffer->dtype.bytes();
  const bool near = bytes_of_whole(context.schedule, block) <= static_cast<double>(own_cache_bytes(context.device));
  return 1 < few && few < (near ? few_checked_vectors : 1) * static_cast<double>(vector_lanes(block, context.device));
}

bool parts_operands(const Schedule& schedule, const BlockRef& ref, const LoopRef& loop) {
  const Block& block = schedule.node(ref);
  const std::optional<JoinedAxis> joined = joined_axis(block);
  if (!joined) return false;
  const Region region = region_read(schedule, block, loop);
  const auto is_part = [&](size_t d) {
    return constant_difference(region.ranges[d].extent, region.buffer->shape[d]) != 0;
  };
  const std::optional<size_t> dimension = dimension_of(block.f.writes[0], block, joined->iter);
  return (dimension && is_part(*dimension)) || is_part(region.ranges.size() - 1);
}

void fuse_rows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const std::optional<std::int64_t> room = nearest_memory_bytes(context.device);
  std::unordered_map<const Var*, double> held;  // what was fused under a loop holds so much an iteration
  std::vector<BlockRef> blocks = schedule.blocks();
  std::reverse(blocks.begin(), blocks.end());
  for (const BlockRef& ref : blocks) {
    if (context.scheduled.contains(ref.name)) continue;
    const std::vector<BlockRef> readers = schedule.consumers(ref);
    if (readers.empty() || !can_move(schedule, ref)) continue;
    const bool free = std::none_of(readers.begin(), readers.end(),
                                   [&](const BlockRef& reader) { return context.scheduled.contains(reader.name); });
    if (!free) continue;
    const FusionWish wish = fusion_wish(schedule.node(ref));
    const bool sealed = is_sealed(schedule.node(ref)) ||
                        std::any_of(readers.begin(), readers.end(),
                                    [&](const BlockRef& reader) { return is_sealed(schedule.node(reader)); });
    if (wish == FusionWish::apart || sealed) {
      context.note(fmt::format("keep {}: {}", ref.name,
                               sealed ? "it or a reader is opaque or calls what is extern" : "it is to stay apart"));
      continue;
    }
    if (wish != FusionWish::together && costs_row_groups(context, ref, readers)) {
      context.note(fmt::format("keep {}: several rows of what reads it are reduced side by side", ref.name));
      continue;
    }
    if (wish != FusionWish::together && takes_rows_side_by_side(schedule.node(ref), context.device)) {
      context.note(fmt::format("keep {}: it reduces several rows side by side", ref.name));
      continue;
    }
    if (wish != FusionWish::together && schedule.node(ref).f.reducer && is_turned(context, ref, readers)) {
      context.note(fmt::format("keep {}: squares turn what it leaves around", ref.name));
      continue;
    }
    const std::vector<LoopRef> loops = common_loops(schedule, readers);
    for (size_t depth = loops.size(); depth-- > 0;) {
      if (repetition(schedule, schedule.node(ref), loops, depth) > 1) continue;
      if (wish != FusionWish::together && costs_vectors(context, ref, readers, loops, depth)) {
        context.note(fmt::format("keep {} out of {}: vectors there have no room for what it checks", ref.name,
                                 loops[depth].variable->name));
        continue;
      }
      if (wish != FusionWish::together && costs_squares(context, ref, loops[depth])) {
        context.note(fmt::format("keep {} out of {}: squares turn it around", ref.name, loops[depth].variable->name));
        continue;
      }
      if (wish != FusionWish::together && schedule.node(ref).f.reducer && is_unrolled(schedule, loops, depth)) {
        context.note(fmt::format("keep {} out of {}: copies of what it sums up would be no registers", ref.name,
                                 loops[depth].variable->name));
        continue;
      }
      if (wish != FusionWish::together && costs_columns(context, ref, readers, loops, depth)) {
        context.note(fmt::format("keep {} out of {}: vectors lie along that", ref.name, loops[depth].variable->name));
        continue;
      }
      if (wish != FusionWish::together && parts_operands(schedule, ref, loops[depth])) {
        context.note(fmt::format("keep {} out of {}: what it joins is copied part by part", ref.name,
                                 loops[depth].variable->name));
        continue;
      }
      if (wish != FusionWish::together && idles_functions(context, ref, readers, loops[depth])) {
        context.note(fmt::format("keep {} out of {}: its few elements there would leave lanes idle", ref.name,
                                 loops[depth].variable->name));
        continue;
      }
      if (wish != FusionWish::together && waits_in_order(context, ref, readers, loops[depth])) {
        if (fuse_block_by_block(context, ref, loops[depth])) break;
        continue;
      }
      if (wish != FusionWish::together && checks_short_rows(context, ref, readers, loops, depth) &&
          fuse_block_by_block(context, ref, loops[depth], rows_of_block))
        break;
      const double bytes = live_bytes(schedule, schedule.node(ref), loops[depth]);
      const auto outside = [&] {
        return depth > 0 ? live_bytes(schedule, schedule.node(ref), loops[depth - 1])
                         : bytes_of_whole(schedule, schedule.node(ref));
      };
      if (wish != FusionWish::together && costs_lanes(schedule, readers, loops[depth]) &&
          (!room || outside() <= static_cast<double>(*room))) {
        context.note(fmt::format("keep {} out of {}: what is folded there would lose its lanes", ref.name,
                                 loops[depth].variable->name));
        continue;
      }
      if (wish != FusionWish::together && has_short_rows(context, ref, readers, loops, depth) &&
          stays_near(context, ref, readers)) {
        context.note(
            fmt::format("keep {}: its rows are short, and all that they touch stays in the first cache", ref.name));
        break;
      }
      double& around = held[loops[depth].variable.get()];
      if (room && around + bytes > static_cast<double>(*room) && wish != FusionWish::together) {
        context.note(fmt::format("keep {}: an iteration of {} would hold {:.0f} bytes, the nearest memory {}", ref.name,
                                 loops[depth].variable->name, around + bytes, *room));
        break;
      }
      const bool fused = attempt(context, fmt::format("compute {} under {}", ref.name, loops[depth].variable->name),
                                 [&] { compute_at(schedule, ref, loops[depth]); });
      if (fused) around += bytes;
      break;
    }
  }
}

}  // namespace lathe
