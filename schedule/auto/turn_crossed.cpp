#include "schedule/auto/turn_crossed.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/merge_duplicates.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/short_squares.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// How often an element is read from which on turning it around costs little beside.
constexpr double least_repeats = 4;

/// An array that a block reads across: contiguous along the iter `across`, where another one is so along `along`.
struct Crossed {
  Buffer array;
  size_t along, across;
};

/// Is each element of the array read once at the most?
bool is_read_once(const Block& block, const Access& access) {
  const std::optional<std::int64_t> elements = constant_elements(access.buffer);
  return elements && instance_count(block) <= static_cast<double>(*elements) &&
         std::none_of(access.strides.begin(), access.strides.end(), [](const auto& stride) { return !stride; });
}

/// Do tuples of far more elements than the array has take these, each again and again? Sums are tiled as contractions.
bool is_small_beside(const Block& block, const Access& access) {
  const std::optional<std::int64_t> elements = constant_elements(access.buffer);
  return block.f.reducer && block.f.reducer->lhs.size() > 1 && elements &&
         instance_count(block) >= least_repeats * static_cast<double>(*elements);
}

/// Does the access walk a long axis by so few elements a step that its vectors are picked out of whole ones?
bool lies_along(const Block& block, const Access& access, size_t iter, std::int64_t side) {
  const std::int64_t step = std::abs(access.strides[iter].value_or(0));
  return step > 0 && step <= most_shuffled_stride && constant_extent(block, iter).value_or(0) >= side;
}

bool is_contiguous(const Block& block, const Access& access, size_t iter, std::int64_t side) {
  return access.strides[iter] == 1 && constant_extent(block, iter).value_or(0) >= side;
}

bool lies_across(const Access& access, size_t iter, std::int64_t side) {
  return std::abs(access.strides[iter].value_or(0)) >= std::max(side, most_shuffled_stride + 1);
}

/// Which arrays may be turned around, and the iter that these are to lie along, once that is chosen.
struct Choice {
  const std::vector<Buffer>* only = nullptr;
  std::vector<Buffer> settled;  ///< turned around for this block, or refused
  std::optional<size_t> along;

  bool allows(const Buffer& array) const { return !holds(settled, array) && (!only || holds(*only, array)); }
  static bool holds(const std::vector<Buffer>& arrays, const Buffer& array) {
    return std::find(arrays.begin(), arrays.end(), array) != arrays.end();
  }
};

/// The array to turn around for a block, and the iter that it is to lie along: that along which most arrays lie, then
/// one that is reduced, then the innermost.
std::optional<Crossed> crossed_array(const Block& block, const Device& device, const Choice& choice) {
  const std::int64_t side = widest_square(block, device);
  if (side < 2) return std::nullopt;
  const Accesses accesses = block_accesses(block);
  const auto is_space = [&](size_t iter) { return block.f.iters[iter].kind == IterKind::space; };
  const bool accumulates = !only_space(block);
  // What is accumulated is kept in registers.
  const auto is_written = [&](const Access& access) {
    return std::any_of(block.f.writes.begin(), block.f.writes.end(),
                       [&](const Region& write) { return write.buffer == access.buffer; });
  };
  const auto worth = [&](size_t iter) {
    const auto there = std::count_if(accesses.begin(), accesses.end(), [&](const Access& access) {
      return (access.store ? !accumulates : is_read_once(block, access)) && lies_along(block, access, iter, side);
    });
    return std::tuple(there, !is_space(iter), iter);
  };
  std::optional<Crossed> best;
  for (const Access& kept : accesses) {
    if (kept.masked || is_written(kept)) continue;
    const bool once = is_read_once(block, kept);
    for (const Access& turned : accesses) {
      if (turned.masked || is_written(turned) || !choice.allows(turned.buffer) ||
          (!once && !is_small_beside(block, turned)))
        continue;
      for (size_t along = 0; along < block.f.iters.size(); ++along) {
        if ((choice.along && along != *choice.along) || !lies_along(block, kept, along, side) ||
            !lies_across(turned, along, side))
          continue;
        for (size_t across = 0; across < block.f.iters.size(); ++across) {
          const bool apart = lies_across(kept, across, side) || (!once && kept.strides[across] == 0);
          if (!is_contiguous(block, turned, across, side) || !apart) continue;
          if (!best || worth(along) > worth(best->along)) best = Crossed{turned.buffer, along, across};
        }
      }
    }
  }
  return best;
}

void require(bool holds) {
  if (!holds)
    throw Refusal(
        "turn_crossed", 1,
        "turn_crossed refused: condition 1, what is copied is indexed by both iters, and no more than is read");
}

/// Copies the one of several loads of the array that lies across: all of the array.
Buffer copy_of_place(Schedule& schedule, const BlockRef& ref, const Crossed& crossed) {
  const Block& block = schedule.node(ref);
  const std::optional<std::int64_t> elements = constant_elements(crossed.array);
  std::optional<size_t> place;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (load && load->buffer == crossed.array && !load->mask &&
        dimension_walked(block, *load, crossed.across) + 1 == load->indices.size() &&
        dimension_walked(block, *load, crossed.along) < load->indices.size())
      place = place_of(block, *load);
  });
  require(place && elements && static_cast<double>(*elements) <= instance_count(block));
  return schedule.node(cache_read(schedule, ref, crossed.array->name, space::global, place)).f.writes[0].buffer;
}

/// Has the block read a copy of the array that lies along the iter.
void copy_turned(Schedule& schedule, const BlockRef& ref, const Crossed& crossed) {
  const Accesses accesses = block_accesses(schedule.node(ref));
  const bool alone = load_count(accesses, crossed.array) == 1;
  const Buffer copied = alone ? schedule.node(reindex(schedule, ref, crossed.array->name)).f.writes[0].buffer
                              : copy_of_place(schedule, ref, crossed);
  const Block& reader = schedule.node(ref);
  const Load* load = load_of(reader, copied);
  const size_t dimension = dimension_walked(reader, *load, crossed.along), last = load->indices.size() - 1;
  require(dimension <= last);
  if (dimension < last) transform_layout(schedule, ref, copied->name, moved_last(copied->rank(), dimension));
}

/// Turns what the block reads across around, one array after another, all toward the same iter; of given `arrays` alone
/// where there are any. Adds those that are to `turned`.
void turn_for(RuleContext& context, const BlockRef& ref, const std::vector<Buffer>* arrays,
              std::vector<Buffer>& turned) {
  const Block& block = context.schedule.node(ref);
  if (context.scheduled.contains(ref.name) || is_sealed(block) || has_blocks(block) || block.f.predicate) return;
  Choice choice;
  choice.only = arrays;
  for (size_t arrays_left = block.f.reads.size(); arrays_left > 0; --arrays_left) {
    const std::optional<Crossed> crossed = crossed_array(context.schedule.node(ref), context.device, choice);
    if (!crossed) return;
    const std::string decision = fmt::format("turn {} around once for {}", crossed->array->name, ref.name);
    choice.settled.push_back(crossed->array);
    if (!attempt(context, decision, [&] { copy_turned(context.schedule, ref, *crossed); })) continue;
    choice.along = crossed->along;
    turned.push_back(crossed->array);
  }
}

}  // namespace

void turn_crossed(RuleContext& context) {
  std::vector<Buffer> turned;
  copy_into_short_rows(context);
  const std::vector<BlockRef> blocks = context.schedule.blocks();
  for (const BlockRef& ref : blocks) {
    if (!only_space(context.schedule.node(ref))) turn_for(context, ref, nullptr, turned);
  }
  if (turned.empty()) return;
  const std::vector<Buffer> shared = turned;
  for (const BlockRef& ref : blocks) {
    if (only_space(context.schedule.node(ref))) turn_for(context, ref, &shared, turned);
  }
  if (turned.size() > 1) merge_duplicates(context);
}

}  // namespace lathe
