#include "schedule/auto/inline_joins.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ir/error.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/stacked_axis.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/fold_choices.h"
#include "schedule/primitives/unfold_reduction.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Elements of matrices that are stacked of numbers at the most.
constexpr std::int64_t most_stacked_elements = 64;

/// Are all loads of the buffer as they should be?
bool all_loads(const Block& reader, const Buffer& buffer, const std::function<bool(const Load&)>& fine) {
  bool all = true;
  for_each_expr(reader.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (load && load->buffer == buffer) all &= fine(*load);
  });
  return all;
}

/// Does the reader reduce along the dimension, with a step for each operand?
bool unfolds(const Block& reader, const Buffer& buffer, size_t dimension) {
  const std::int64_t* count = as_int(buffer->shape[dimension]);
  if (!reader.f.reducer || !count || *count > most_unfolded) return false;
  return all_loads(reader, buffer, [&](const Load& load) {
    return std::any_of(reader.f.iters.begin(), reader.f.iters.end(), [&](const Iter& iter) {
      return iter.kind == IterKind::reduce && load.indices[dimension] == Expr(iter.variable);
    });
  });
}

/// Does the block stack numbers to small matrices of so many elements, each of which is a little to compute?
bool stacks_small(const Block& block) {
  const std::optional<JoinedAxis> joined = joined_axis(block);
  if (!joined || !is_stacked_along(block, block.f.iters[joined->iter])) return false;
  std::int64_t elements = 1;
  for (size_t i = joined->iter; i < block.f.iters.size(); ++i) {
    const std::int64_t* extent = as_int(block.f.iters[i].domain.extent);
    if (!extent || *extent > most_stacked_elements) return false;
    elements *= *extent;
  }
  return elements <= most_stacked_elements && body_cost(block) < static_cast<double>(joined->operands) * function_body;
}

/// Does the reader do a little for each element of an output, at places that do not hang on what is loaded?
bool chooses(const Schedule& schedule, const Block& reader, const Buffer& buffer) {
  const bool output = std::none_of(reader.f.writes.begin(), reader.f.writes.end(),
                                   [&](const Region& region) { return is_allocated(schedule.func(), region.buffer); });
  if (!output || !only_space(reader) || (body_cost(reader) >= function_body && !stacks_small(reader))) return false;
  return all_loads(reader, buffer, [](const Load& load) {
    return std::none_of(load.indices.begin(), load.indices.end(), [](const Expr& index) { return has_load(index); });
  });
}

/// Are there readers, each of which takes what the block joins apart?
bool is_taken_apart(const Schedule& schedule, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  const std::optional<JoinedAxis> joined = joined_axis(block);
  if (!joined || block.f.writes.size() != 1 || !is_allocated(schedule.func(), block.f.writes[0].buffer)) return false;
  const Region& written = block.f.writes[0];
  const std::optional<size_t> dimension = dimension_of(written, block, joined->iter);
  if (!dimension) return false;
  const bool stacked = is_stacked_along(block, block.f.iters[joined->iter]);
  const std::vector<BlockRef> readers = schedule.consumers(ref);
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader_ref) {
    const Block& reader = schedule.node(reader_ref);
    return (stacked && unfolds(reader, written.buffer, *dimension)) || chooses(schedule, reader, written.buffer);
  });
}

/// Operands that a tuple chooses from for each of its steps: as many choices are cheaper than storing what is chosen
/// from.
constexpr size_t most_chosen = 4;

/// The readers that reduce tuples, whose steps are no one expression.
std::vector<BlockRef> tuples_of(const Schedule& schedule, const BlockRef& ref) {
  std::vector<BlockRef> found = schedule.consumers(ref);
  std::erase_if(found, [&](const BlockRef& reader) {
    const Block& block = schedule.node(reader);
    return !block.f.reducer || simple_op(*block.f.reducer);
  });
  return found;
}

/// Folds the choice among `count` slices of the reader's steps, which lie so far apart as each other.
void fold_along(Schedule& schedule, const BlockRef& reader, std::int64_t count) {
  const auto wanted = [&](const Iter& iter, std::int64_t values) {
    return iter.kind == IterKind::reduce && values == count;
  };
  const std::vector<LoopRef> loops = stacking_loops(schedule, reader, wanted);
  if (loops.empty()) throw Refusal("inline_joins", 0, "no loop stacks");
  for (const LoopRef& loop : loops) fold_choices(schedule, reader, loop);
}

}  // namespace

void inline_joins(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || fusion_wish(block) == FusionWish::apart || is_sealed(block) ||
        !is_taken_apart(schedule, ref))
      continue;
    const std::vector<BlockRef> tuples = tuples_of(schedule, ref);
    const JoinedAxis joined = *joined_axis(block);
    const bool folded = !tuples.empty() && attempt(context, fmt::format("fold what {} stacks", ref.name), [&] {
      const std::int64_t count = *as_int(block.f.iters[joined.iter].domain.extent);
      compute_inline(schedule, ref);
      for (const BlockRef& reader : tuples) fold_along(schedule, reader, count);
    });
    if (folded || (!tuples.empty() && joined.operands > most_chosen)) continue;
    attempt(context, fmt::format("inline what {} joins", ref.name), [&] { compute_inline(schedule, ref); });
  }
}

}  // namespace lathe
