#include "schedule/auto/part_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/share_reductions.h"
#include "schedule/auto/tile_contractions.h"
#include "schedule/auto/tile_reader.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Rows of a part: so many that what its results cost, which are begun, added up and read once more, is little beside
/// them; more where there would be more parts than are enough, up to what rounding errors allow in a chain of
/// additions.
constexpr std::int64_t least_rows = 16, rows_wanted = 64, most_rows = 512, parts_enough = 64;
/// Parts for each core, so that they divide among these.
constexpr std::int64_t parts_a_core = 2;

/// A sum down columns.
struct Columns {
  BlockRef ref;
  size_t row = 0, column = 0;   ///< iters
  std::optional<size_t> outer;  ///< one that rows are reduced over besides, around `row`
  std::int64_t rows = 0, columns = 0, outer_rows = 1;
};

/// The rows of a part, of those that follow each other along one iter; nothing where they have no such divisor.
std::optional<std::int64_t> part_rows(const Device& device, const Columns& columns) {
  const std::int64_t rows = columns.rows, all = rows * columns.outer_rows;
  const std::int64_t most = std::min({rows, most_rows, all / (parts_a_core * device.cores)});
  const std::int64_t wanted = std::min(most, std::max(all / parts_enough, rows_wanted));
  std::optional<std::int64_t> found = greatest_divisor(rows, least_rows, wanted);
  for (std::int64_t more = wanted + 1; !found && more <= most; ++more) {
    if (rows % more == 0) found = more;
  }
  return found;
}

/// Does a step of the iter, in the first load that both move, go farther than one of the other?
bool goes_farther(const Block& block, size_t iter, size_t other) {
  for (const Access& access : block_accesses(block)) {
    if (!access.store && access.strides[iter].value_or(0) != 0 && access.strides[other].value_or(0) != 0)
      return std::abs(*access.strides[iter]) > std::abs(*access.strides[other]);
  }
  return false;
}

/// Nothing where the block is no such sum, as traced, of columns that lie side by side.
std::optional<Columns> columns_of(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (!may_join(context, block) || !block.f.reducer || !block.f.init || block.f.predicate ||
      !simple_op(*block.f.reducer))
    return std::nullopt;
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape || !shape->vector_space || shape->rows || shape->column_run > 0 || shape->space.size() != 1 ||
      shape->reduce.empty() || shape->reduce.size() > 2)
    return std::nullopt;
  Columns found;
  found.ref = ref;
  found.row = shape->reduce.back();
  found.column = *shape->vector_space;
  if (shape->reduce.size() == 2) {
    found.outer = shape->reduce.front();
    if (goes_farther(block, found.row, *found.outer)) std::swap(found.row, *found.outer);
  }
  const auto extent_of = [&](size_t i) {
    const std::int64_t* extent = as_int(block.f.iters[i].domain.extent);
    return extent ? *extent : 0;
  };
  found.rows = extent_of(found.row);
  found.columns = extent_of(found.column);
  if (found.outer) found.outer_rows = extent_of(*found.outer);
  const std::vector<LoopRef> own = own_loops(schedule, ref);
  const bool has_loops = own_loop_of(schedule, ref, found.row) && own_loop_of(schedule, ref, found.column) &&
                         (!found.outer || own_loop_of(schedule, ref, *found.outer));
  if (!has_loops || own.size() != block.f.iters.size() || found.rows * found.outer_rows == 0 ||
      found.columns < least_row_vectors * vector_lanes(block, context.device))
    return std::nullopt;
  return found;
}

/// Do the loops around a block go from row to row outermost, as far as `mine` of the columns does with each? Of rows
/// that were joined one loop goes along all elements.
bool goes_by_rows(const Schedule& schedule, const Columns& columns, const Access& mine, const BlockRef& ref,
                  const Access& access) {
  const Block& block = schedule.node(ref);
  std::vector<std::int64_t> steps;
  if (columns.outer && columns.outer_rows > 1) steps.push_back(mine.strides[*columns.outer].value_or(0));
  steps.push_back(mine.strides[columns.row].value_or(0));
  size_t at = 0;
  for (const LoopRef& loop : schedule.loops(ref)) {
    if (is_int(schedule.node(loop).extent, 1)) continue;
    const auto iter = iter_moved_by(block, loop.variable);
    const auto step = iter ? access.strides[*iter] : std::nullopt;
    if (at == 0 && !columns.outer && step == mine.strides[columns.column] &&
        is_int(schedule.node(loop).extent, columns.rows * columns.columns))
      return true;
    if (step != steps[at]) return false;
    if (++at == steps.size()) return true;
  }
  return false;
}

/// Does the access of a block walk rows as `mine` of the columns does: by its iters, of which one of this kind goes
/// from row to row, or by one that rows were joined to? Products, of which an iter leaves the access where it is, do
/// not.
bool walks_rows(const Columns& columns, const Access& mine, const Block& block, const Access& access, IterKind kind) {
  const auto row = mine.strides[columns.row], column = mine.strides[columns.column];
  if (access.buffer != mine.buffer || !row || !column) return false;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (access.strides[i] == 0 && !is_int(block.f.iters[i].domain.extent, 1)) return false;
  }
  const auto moves = [&](std::int64_t extent, std::int64_t stride, std::optional<IterKind> of = std::nullopt) {
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const Iter& iter = block.f.iters[i];
      if (access.strides[i] == stride && is_int(iter.domain.extent, extent) && iter.kind == of.value_or(iter.kind))
        return true;
    }
    return false;
  };
  const bool joined = !columns.outer && *row == columns.columns * *column;
  const bool moves_outer = !columns.outer || (mine.strides[*columns.outer] &&
                                              moves(columns.outer_rows, *mine.strides[*columns.outer], kind));
  return (moves_outer && moves(columns.rows, *row, kind) && moves(columns.columns, *column)) ||
         (joined && moves(columns.rows * columns.columns, *column, kind));
}

/// The bytes of arrays that both walk by the same rows: those of another nest outermost, but of other columns, which
/// are cut alike.
double shared_bytes(const Schedule& schedule, const Columns& columns, const BlockRef& ref, IterKind kind) {
  const Block& other = schedule.node(ref);
  const Accesses accesses = block_accesses(other);
  const Block& block = schedule.node(columns.ref);
  std::set<const BufferNode*> counted;
  double bytes = 0;
  for (const Access& mine : block_accesses(block)) {
    if (mine.store || mine.strides[columns.row].value_or(0) == 0 || mine.strides[columns.column].value_or(0) == 0)
      continue;
    const bool shared = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return walks_rows(columns, mine, other, access, kind) &&
             (kind == IterKind::reduce || goes_by_rows(schedule, columns, mine, ref, access));
    });
    if (shared && counted.insert(mine.buffer.get()).second)
      bytes += static_cast<double>(columns.outer_rows * columns.rows * columns.columns * mine.buffer->dtype.bytes());
  }
  return bytes;
}

/// Bytes that a row of the columns takes, of all that they touch.
double row_bytes(const Schedule& schedule, const Columns& columns) {
  double bytes = 0;
  for (const Access& access : block_accesses(schedule.node(columns.ref))) {
    if (access.strides[columns.column] != 0)
      bytes += static_cast<double>(columns.columns * access.buffer->dtype.bytes());
  }
  return bytes;
}

/// The blocks that wait for what `from` writes, itself left out.
std::set<std::string> waiting_for(const Schedule& schedule, const BlockRef& from) {
  std::set<std::string> found;
  std::vector<BlockRef> todo{from};
  while (!todo.empty()) {
    const BlockRef at = todo.back();
    todo.pop_back();
    for (const BlockRef& reader : schedule.consumers(at)) {
      if (reader != from && found.insert(reader.name).second) todo.push_back(reader);
    }
  }
  return found;
}

/// Is it a reduction that tile_contractions takes, or the reader of one that stores its tiles? These have loops of
/// their own.
bool is_tiled(const RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& blocks) {
  const auto taken = [&](const BlockRef& of) -> std::optional<ReductionShape> {
    const std::optional<ReductionShape> shape = reduction_shape(context.schedule.node(of));
    return shape && worth_tiling(context, of, *shape) ? shape : std::nullopt;
  };
  return taken(ref) || std::any_of(blocks.begin(), blocks.end(), [&](const BlockRef& maker) {
           const std::optional<ReductionShape> shape = taken(maker);
           return shape && element_wise_reader(context, maker, *shape, std::nullopt) == ref;
         });
}

/// Does another nest walk the rows of arrays that do not stay near, which neither waits for the columns' sums nor, if
/// it sums columns too, makes them wait?
bool shares_rows(const RuleContext& context, const Columns& columns, const std::vector<BlockRef>& blocks) {
  const Schedule& schedule = context.schedule;
  const auto near = static_cast<double>(own_cache_bytes(context.device));
  const std::set<std::string> behind = waiting_for(schedule, columns.ref);
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockRef& other) {
    const Block& block = schedule.node(other);
    if (other == columns.ref || behind.contains(other.name) || !may_join(context, block) || block.f.predicate)
      return false;
    const bool sums = columns_of(context, other).has_value();
    const double shared = shared_bytes(schedule, columns, other, sums ? IterKind::reduce : IterKind::space);
    if (shared <= near_share * near || (!sums && is_tiled(context, other, blocks))) return false;
    return !sums || (shared > near && !waiting_for(schedule, other).contains(columns.ref.name));
  });
}

/// Are they over two axes of arrays from memory? Eight rows by turns then come faster than a few columns down all of
/// them, and rows of one axis alone go by turns (measured on Zen 4, sums over the first two axes of 4x1024x1024: 0.7 of
/// the time by parts for the first, of 2x4096x4096 0.42, of 8x512x512, which the last cache keeps, as long).
bool comes_from_far(const RuleContext& context, const Columns& columns) {
  return columns.outer && columns.outer_rows <= parts_enough && columns.rows >= least_rows &&
         comes_from_memory(context.device, shared_bytes(context.schedule, columns, columns.ref, IterKind::reduce));
}

void part(RuleContext& context, const Columns& columns, std::int64_t rows) {
  Schedule& schedule = context.schedule;
  const LoopRef column = *loop_of_iter(schedule, columns.ref, columns.column);
  const std::optional<LoopRef> outer =
      columns.outer ? loop_of_iter(schedule, columns.ref, *columns.outer) : std::nullopt;
  auto [parts, row] = split(schedule, *loop_of_iter(schedule, columns.ref, columns.row), rows);
  if (outer) {
    reorder(schedule, {*outer, parts, row, column});
    parts = fuse(schedule, *outer, parts);
  }
  const BlockRef partial = make_parts(context, columns.ref, parts);
  reorder(schedule, {row, column});
  decompose_reduction(schedule, partial, row);
}

}  // namespace

void part_columns(RuleContext& context) {
  Schedule& schedule = context.schedule;
  if (own_cache_bytes(context.device) == 0) return;
  const std::vector<BlockRef> blocks = schedule.blocks();
  std::vector<Columns> beside, far;
  for (const BlockRef& ref : blocks) {
    const std::optional<Columns> columns = columns_of(context, ref);
    if (!columns) continue;
    if (part_rows(context.device, *columns) &&
        2 * row_bytes(schedule, *columns) <= static_cast<double>(own_cache_bytes(context.device)) &&
        shares_rows(context, *columns, blocks))
      beside.push_back(*columns);
    else if (comes_from_far(context, *columns))
      far.push_back(*columns);
  }
  for (const Columns& columns : beside) {
    const std::int64_t rows = *part_rows(context.device, columns);
    attempt(context, fmt::format("add up columns of {} by {} rows", columns.ref.name, rows),
            [&] { part(context, columns, rows); });
  }
  for (const Columns& columns : far) {
    const LoopRef outer = *loop_of_iter(schedule, columns.ref, *columns.outer);
    attempt(context, fmt::format("add up columns of {} for each {}", columns.ref.name, outer.variable->name),
            [&] { make_parts(context, columns.ref, outer); });
  }
}

}  // namespace lathe
