#include "schedule/auto/widen_operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/ragged.h"
#include "schedule/auto/stage_operands.h"
#include "schedule/auto/tile_costs.h"
#include "schedule/auto/turn_results.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/cache_cast.h"

namespace lathe {
namespace {

/// Reads of an element from which on a copy of what it is cast to pays: of one that all lanes share, which tiles cast
/// alone, and of those that a vector casts at once. Measured on Cascade Lake, where a cast takes the ports of two
/// multiply-adds: 256 x 16 x 256 of f16 in 25 us instead of 84, 24 x 1024 x 1024 in 520 us instead of 930.
constexpr double shared_reuse = 16, vector_reuse = 24;
/// The same of what is padded: choosing between an element and the padding costs more than a cast, and is copied away
/// together with it.
constexpr double padded_reuse = 6;

/// Reads of an element that all lanes share from which on a copy may pay where tiles are narrow.
constexpr double least_reuse = 4;
/// Cycles of a vector that is cast, stored and loaded again element by element (measured on Zen 4, rows of f16 by 8
/// columns, in vectors of 16).
constexpr double copied_cast_cycles = 2.2;

/// Buffers of narrow floats that the block reads under a cast to a wider float.
std::vector<Buffer> narrow_operands(const Block& block) {
  std::vector<Buffer> found;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Cast* cast = e.as<Cast>();
    const Load* load = cast ? cast->value.as<Load>() : nullptr;
    if (!load || !e->dtype.is_float() || !load->dtype.is_float() || load->dtype.bits >= e->dtype.bits) return;
    if (std::find(found.begin(), found.end(), load->buffer) == found.end()) found.push_back(load->buffer);
  });
  return found;
}

/// By what the block chooses between an element of the buffer and a padding; null where it does not.
Expr choice_of(const Block& block, const Buffer& buffer) {
  Expr found;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* select = e.as<Select>();
    const Cast* cast = select ? select->when_true.as<Cast>() : nullptr;
    const Load* load = cast ? cast->value.as<Load>() : nullptr;
    if (load && load->buffer == buffer) found = select->condition;
  });
  return found;
}

/// Do its rows move on by steps along the results', in a window of theirs?
bool walks_by_steps(const Block& block, const std::vector<Access>& accesses, const Buffer& buffer) {
  const auto walks = [&](const Access& access, IterKind kind, std::int64_t least, std::int64_t most) {
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const std::int64_t stride = access.strides[i].value_or(0);
      if (block.f.iters[i].kind == kind && stride >= least && stride <= most &&
          (kind == IterKind::reduce || stores_in_a_row(accesses, i)))
        return true;
    }
    return false;
  };
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.buffer == buffer && walks(access, IterKind::space, 2, most_shuffled_stride) &&
           walks(access, IterKind::reduce, 1, 1);
  });
}

/// Do tiles of rows that were cast as vectors beat those that cast each element alone, and dot products? Not where
/// vectors are to walk the rows.
bool pays_for_tiles(const RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const Buffer& operand) {
  const Block& block = context.schedule.node(reduction);
  const std::optional<TileCosts> costs = tile_costs(context, block, shape);
  if (!costs || costs->casts == 0) return false;
  const size_t columns = dot_axes(block, shape)->columns;
  const Accesses accesses = block_accesses(block);
  const bool shared = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.buffer != operand || access.strides[columns] == 0;
  });
  if (!shared || pays_to_turn_results(context, reduction)) return false;
  const double copying = copied_cast_cycles / static_cast<double>(vector_lanes(block, context.device)),
               widened = costs->tiles + copying * estimated_elements(operand, context.schedule.func()->facts);
  return widened < costs->tiles + costs->casts && widened < costs->dots;
}

}  // namespace

std::vector<BlockRef> widen_operands(RuleContext& context, const BlockRef& reduction) {
  const std::optional<ReductionShape> shape = reduction_shape(context.schedule.node(reduction));
  if (!shape || shape->loads < 2) return {};
  std::vector<BlockRef> casts;
  for (const Buffer& operand : narrow_operands(context.schedule.node(reduction))) {
    const Block& block = context.schedule.node(reduction);
    const Accesses accesses = block_accesses(block);
    const bool along_vectors = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return access.buffer == operand && shape->vector_space && access.strides[*shape->vector_space] != 0;
    });
    // Of rows of unknown lengths no more may be read than there are elements to widen.
    if (along_vectors && ended_by_data(block)) continue;
    const std::vector<Fact>& facts = context.schedule.func()->facts;
    const double reuse = instance_count(block, facts) / std::max(1.0, estimated_elements(operand, facts));
    const double padded = walks_by_steps(block, accesses, operand) ? apart_reuse : padded_reuse;
    const Expr choice = choice_of(block, operand);
    const bool whole = choice && pads_whole_vectors(context, block, operand, choice);
    const double least = choice && !whole ? padded : along_vectors || whole ? vector_reuse : shared_reuse;
    if (reuse < least &&
        (reuse < least_reuse || choice || along_vectors || !pays_for_tiles(context, reduction, *shape, operand)))
      continue;
    attempt(context, fmt::format("widen {} once for {}", operand->name, reduction.name),
            [&] { casts.push_back(cache_cast(context.schedule, reduction, operand->name, space::global)); });
  }
  return casts;
}

}  // namespace lathe
