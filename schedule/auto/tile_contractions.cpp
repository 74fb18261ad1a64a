#include "schedule/auto/tile_contractions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/dot_products.h"
#include "schedule/auto/dot_words.h"
#include "schedule/auto/group_axes.h"
#include "schedule/auto/hoist_offsets.h"
#include "schedule/auto/joined_rows.h"
#include "schedule/auto/lay_results.h"
#include "schedule/auto/part_operands.h"
#include "schedule/auto/split_groups.h"
#include "schedule/auto/stage_operands.h"
#include "schedule/auto/stream_rows.h"
#include "schedule/auto/tile_reduction.h"
#include "schedule/auto/turn_operands.h"
#include "schedule/auto/turn_results.h"
#include "schedule/auto/vectors_across.h"
#include "schedule/auto/widen_operands.h"
#include "schedule/primitives/compute_inline.h"

namespace lathe {
namespace {

/// Tiles whose vectors lie across memory, where these are estimated to be faster.
bool tile_across(RuleContext& context, const BlockRef& ref) {
  std::optional<ReductionShape> shape = reduction_shape(context.schedule.node(ref));
  if (shape) find_rows_across(context.schedule.node(ref), &*shape);
  const std::optional<AcrossPlan> plan = shape ? plan_across(context, ref, *shape) : std::nullopt;
  return plan && attempt(context, fmt::format("lay the vectors of {} across memory", ref.name),
                         [&] { tile_reduction(context, ref, *shape, *plan); });
}

/// Does the reader add up what the reduction read, weighted by results of its own that `weights` holds, as a gradient
/// does with the rows of its samples, of an array that the last cache holds? One row after the other, each would wait
/// for its own result alone, and a function of that would fill no vector; walked twice, whole vectors of rows are made
/// at a time. Of sums for each of several groups of rows, a group stays near as it is.
bool adds_rows_up(const RuleContext& context, const Block& reduction, const Block& reader, const Buffer& weights) {
  if (!reader.f.reducer) return false;
  const auto walks = [&](const Range& range, IterKind kind) {
    return std::any_of(reader.f.iters.begin(), reader.f.iters.end(),
                       [&](const Iter& iter) { return iter.kind == kind && uses_var(range.min, iter.variable.get()); });
  };
  const auto walks_groups = [&](const Range& range) {
    return walks(range, IterKind::space) && !walks(range, IterKind::reduce);
  };
  bool shares = false;
  for (const Region& read : reader.f.reads) {
    const Buffer& buffer = read.buffer;
    if (buffer == weights && std::any_of(read.ranges.begin(), read.ranges.end(), walks_groups)) return false;
    const double bytes = estimated_elements(buffer, context.schedule.func()->facts) * buffer->dtype.bytes();
    shares |= buffer != reader.f.writes[0].buffer && buffer != reduction.f.writes[0].buffer &&
              reads(reduction, buffer) && !comes_from_memory(context.device, bytes);
  }
  return shares;
}

/// Do readers walk further than what the reduction writes, as rows whose sum or maximum is wanted before they are read
/// again, of its results or of what is made of each, such as a mean? Then it is worth more that the rows stay near.
bool read_along_rows(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const std::vector<Fact>& facts = schedule.func()->facts;
  const double written = estimated_elements(schedule.node(ref).f.writes[0].buffer, facts);
  std::vector<BlockRef> made = {ref};
  for (size_t i = 0; i < made.size(); ++i) {
    for (const BlockRef& reader : schedule.consumers(made[i])) {
      const Block& block = schedule.node(reader);
      if (instance_count(block, facts) > written &&
          !adds_rows_up(context, schedule.node(ref), block, schedule.node(made[i]).f.writes[0].buffer))
        return true;
      if (!block.f.reducer && std::find(made.begin(), made.end(), reader) == made.end()) made.push_back(reader);
    }
  }
  return false;
}

}  // namespace

bool worth_tiling(const RuleContext& context, const BlockRef& ref, const ReductionShape& shape) {
  if (shape.vector_space) return true;
  if (!shape.vector_reduce || shape.loads < 2) return false;
  return (shape.rows && shape.columns) || ((shape.rows || shape.columns) && !read_along_rows(context, ref));
}

namespace {

/// Is there at most one operand in the way of vectors along the columns, so that turning it around could help?
bool may_turn(const Block& block) {
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape || shape->vector_space || !shape->columns) return !shape || shape->column_run == 0;
  const Accesses accesses = block_accesses(block);
  const size_t columns = *shape->columns;
  return std::count_if(accesses.begin(), accesses.end(), [&](const Access& access) {
           // What columns of a group share is in no vector's way.
           const bool in_runs = !access.strides[columns] && access.runs[columns] >= shortest_run;
           return access.buffer != block.f.writes[0].buffer && access.strides[columns] != 0 &&
                  access.strides[columns] != 1 && !in_runs;
         }) <= 1;
}

/// Tiles of dot products, where the device has them for the block.
bool tile_dot(RuleContext& context, const BlockRef& ref) {
  const std::vector<BlockRef> makers = widening_makers(context, ref);
  if (makers.empty() && !plan_dot(context, ref)) return false;
  return attempt(context, fmt::format("tile {} in dot products", ref.name), [&] {
    for (const BlockRef& maker : makers) compute_inline(context.schedule, maker);
    std::optional<DotPlan> plan = plan_dot(context, ref);
    if (!plan) throw Refusal("tile_contractions", 0, "no instruction takes its factors");
    stage_dot(context, ref, *plan);
    std::optional<ReductionShape> shape = reduction_shape(context.schedule.node(ref));
    if (!shape || shape->vector_space != plan->vectors) {
      throw Refusal("tile_contractions", 0, "vectors do not walk the copy");
    }
    if (shape->rows != plan->rows) {
      shape->rows = plan->rows;
      shape->row_run = 0;
    }
    tile_reduction(context, ref, *shape, *plan);
  });
}

/// The bits of the wider factor, as they come to blocks that widen them, where the sum is over one iter and a word of
/// it holds several.
std::optional<int> word_bits(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& makers) {
  const Block& block = context.schedule.node(ref);
  const Buffer& result = block.f.writes[0].buffer;
  const auto steps = std::count_if(block.f.iters.begin(), block.f.iters.end(), [](const Iter& iter) {
    return iter.kind == IterKind::reduce && !is_int(iter.domain.extent, 1);
  });
  int widest = 0;
  for (const Access& access : block_accesses(block)) {
    if (access.buffer == result) continue;
    int bits = access.buffer->dtype.bits;
    for (const BlockRef& maker : makers) {
      const Block& widened = context.schedule.node(maker);
      if (widened.f.writes[0].buffer == access.buffer) bits = widened.f.reads[0].buffer->dtype.bits;
    }
    widest = std::max(widest, bits);
  }
  return steps == 1 && result->dtype.bits == 32 && 0 < widest && widest <= 16 ? std::optional(widest) : std::nullopt;
}

/// The same with the results turned around, where rows would be laid out in words for few columns.
bool tile_turned_dot(RuleContext& context, const BlockRef& ref) {
  const std::vector<BlockRef> makers = widening_makers(context, ref);
  const std::optional<int> bits = word_bits(context, ref, makers);
  if (!bits || !pays_to_turn_results(context, ref, bits) || (makers.empty() && !plan_dot(context, ref))) return false;
  return attempt(context, fmt::format("turn the results of {} around for dot products", ref.name), [&] {
    turn_results(context, ref);
    if (!tile_dot(context, ref)) throw Refusal("tile_contractions", 0, "no instruction takes its factors");
  });
}

/// Copies what is widened as stage_operands does what is wide; such a copy widens what it reads.
void stage_widened(RuleContext& context, const BlockRef& ref) {
  const std::vector<BlockRef> casts = widen_operands(context, ref);
  if (casts.empty()) return;
  stage_repeats(context, ref);
  stage_operands(context, ref);
  for (const BlockRef& cast : casts) {
    const std::vector<BlockRef> readers = context.schedule.consumers(cast);
    if (readers.size() != 1 || readers[0] == ref) continue;
    attempt(context, fmt::format("widen in the copy {}", readers[0].name),
            [&] { compute_inline(context.schedule, cast); });
  }
}

/// May operands be laid out in words, and have they been?
struct Words {
  bool allowed, made = false;
};

/// Could vectors walk the steps alone, which leave most lanes idle?
bool has_few_steps(const RuleContext& context, const Block& block) {
  const std::optional<ReductionShape> shape = reduction_shape(block);
  return shape && !shape->vector_space && shape->vector_reduce &&
         extent_estimate(block.f.iters[*shape->vector_reduce].domain.extent) < vector_lanes(block, context.device);
}

/// Lays the operands of a reduction out as tiles want them, and tiles it where that can be done.
bool tile(RuleContext& context, const BlockRef& ref, Words& words) {
  if (words.allowed && stage_words(context, ref)) {
    words.made = true;
    if (has_few_steps(context, context.schedule.node(ref))) split_groups(context, ref);
  }
  stage_joined(context, ref);
  // What is laid out for groups is copied once, scattered or not.
  if (!group_axes(context, ref)) {
    stage_scattered(context, ref);
    group_axes(context, ref);
  }
  stage_repeats(context, ref);
  join_row_axes(context, ref);
  stage_operands(context, ref);
  if (tile_turned_dot(context, ref) || tile_dot(context, ref)) return true;
  stage_widened(context, ref);
  join_short_rows(context, ref);
  if (tile_across(context, ref)) return true;
  if (pays_to_turn_results(context, ref))
    attempt(context, fmt::format("turn the results of {} around", ref.name), [&] { turn_results(context, ref); });
  part_operands(context, ref);
  const std::optional<TurnedCopy> turned =
      may_turn(context.schedule.node(ref)) ? turn_operand(context, ref) : std::nullopt;
  const std::optional<ReductionShape> shape = reduction_shape(context.schedule.node(ref));
  if (!shape || !worth_tiling(context, ref, *shape)) return false;
  if (stream_rows(context, ref, *shape)) {
    if (turned) turn_copy(context, ref, *turned);
    return true;
  }
  return attempt(context, fmt::format("tile the reduction {}", ref.name),
                 [&] { tile_reduction(context, ref, *shape, turned); });
}

/// Tiles one reduction, or leaves it as it is.
void tile_contraction(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const Schedule::Checkpoint before = context.schedule.checkpoint();
  const size_t scheduled = context.scheduled.size(), place = context.schedule.record().size();
  const auto is_changed = [&] { return context.schedule.record().size() != place; };
  const auto take_back = [&] {
    context.schedule.rollback(before);
    context.scheduled.shrink(scheduled);
  };
  bool staged = false;
  const auto is_tiled = [&](Words& words) {
    if (tile(context, ref, words)) return true;
    staged |= is_changed();
    if (is_changed()) take_back();
    const std::optional<ReductionShape> shape = reduction_shape(context.schedule.node(ref));
    if (!shape || shape->loads < 2) return false;
    stage_repeats(context, ref);
    stage_operands(context, ref);
    stage_widened(context, ref);
    if (lay_operand(context, ref) && tile(context, ref, words)) return true;
    if (is_changed()) take_back();
    return false;
  };
  Words words{true}, none{false};
  if (prefers_own_groups(context, block) && split_groups(context, ref)) {
    if (tile(context, ref, words)) return;
    take_back();
    words = {true};
  }
  if (is_tiled(words) || (words.made && is_tiled(none))) return;
  if (split_groups(context, ref)) {
    if (tile(context, ref, words)) return;
    take_back();
    staged = true;
  }
  if (align_steps(context, ref)) {
    if (tile(context, ref, none)) return;
    take_back();
  }
  if (!staged) return;
  context.note(fmt::format("leave the operands of {} where they lie: nothing tiles it", ref.name));
  // What serves vectors of any rule stays.
  stage_repeats(context, ref);
  stage_operands(context, ref);
  join_short_rows(context, ref);
}

}  // namespace

void tile_contractions(RuleContext& context) {
  std::set<std::string> seen;
  // Laying out the factors of one may add another, such as the sums by which shifted integers are off.
  for (bool found = true; found;) {
    found = false;
    for (const BlockRef& ref : context.schedule.blocks()) {
      if (!context.schedule.node(ref).f.reducer || context.scheduled.contains(ref.name) ||
          !seen.insert(ref.name).second)
        continue;
      hoist_offsets(context, ref);
      tile_contraction(context, ref);
      found = true;
    }
  }
}

}  // namespace lathe
