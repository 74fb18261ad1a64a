#include "schedule/auto/part_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/share_reductions.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Rows of a part: so many that what its results cost, which are begun, added up and read once more, is little beside
/// them, and no more than leave parts_enough of them, nor than rounding errors allow in one chain of additions.
constexpr std::int64_t least_rows = 16, rows_wanted = 64, most_rows = 512, parts_enough = 64;
/// Parts for each core, so that they divide among these.
constexpr std::int64_t parts_a_core = 2;
/// The share of a core's own caches from which on arrays, so many at the most, are worth reading once. Sums down
/// columns alone, which registers hold while they go down, are from all of these on (measured on Zen 4, 1 MB: the
/// gradient of a layer norm of 256x320 floats 0.89 of the time, of 512x768 0.80, of 8192x1024 0.68; sums beside
/// maxima 1.1, 0.75 and 0.70).
constexpr double near_share = 0.5, most_shared = 2;
/// The share of the last cache from which on arrays come from memory (measured on Zen 4, sums over the first two axes
/// of 4x1024x1024, 16 MB: 0.7 of the time by parts for the first, of 2x4096x4096 0.42, of 8x512x512 as long).
constexpr double far_share = 0.5;
/// Vectors of a row from which on nothing is lost by walking along it; and that are added to at once.
constexpr std::int64_t least_vectors = 4, vectors_at_once = 2;

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

/// Nothing where the block is no such sum, as traced, of columns that lie side by side.
std::optional<Columns> columns_of(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (context.scheduled.contains(ref.name) || !block.f.reducer || !block.f.init || block.f.predicate ||
      !simple_op(*block.f.reducer) || is_sealed(block) || fusion_wish(block) == FusionWish::apart)
    return std::nullopt;
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape || !shape->vector_space || shape->rows || shape->column_run > 0 || shape->space.size() != 1 ||
      shape->reduce.empty() || shape->reduce.size() > 2)
    return std::nullopt;
  Columns found;
  found.ref = ref;
  found.row = shape->reduce.back();
  found.column = *shape->vector_space;
  if (shape->reduce.size() == 2) found.outer = shape->reduce.front();
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
      found.columns < least_vectors * vector_lanes(block, context.device))
    return std::nullopt;
  return found;
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

/// The bytes of arrays that both walk by the same rows.
double shared_bytes(const Schedule& schedule, const Columns& columns, const Block& other, IterKind kind) {
  const std::vector<Access> accesses = block_accesses(other);
  const Block& block = schedule.node(columns.ref);
  std::set<const BufferNode*> counted;
  double bytes = 0;
  for (const Access& mine : block_accesses(block)) {
    if (mine.store || mine.strides[columns.row].value_or(0) == 0 || mine.strides[columns.column].value_or(0) == 0)
      continue;
    const bool shared = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return walks_rows(columns, mine, other, access, kind);
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

/// Does another nest walk the rows of arrays that do not stay near, which neither waits for the columns' sums nor, if
/// it sums columns too, makes them wait?
bool shares_rows(const RuleContext& context, const Columns& columns, const std::vector<BlockRef>& blocks) {
  const Schedule& schedule = context.schedule;
  const auto near = static_cast<double>(own_cache_bytes(context.device));
  const std::set<std::string> behind = waiting_for(schedule, columns.ref);
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockRef& other) {
    if (other == columns.ref || behind.contains(other.name) || context.scheduled.contains(other.name)) return false;
    const Block& block = schedule.node(other);
    if (has_blocks(block) || is_sealed(block) || block.f.predicate) return false;
    const bool sums = columns_of(context, other).has_value();
    const double shared = shared_bytes(schedule, columns, block, sums ? IterKind::reduce : IterKind::space);
    if (shared <= near_share * near) return false;
    return !sums || (shared > near && !waiting_for(schedule, other).contains(columns.ref.name));
  });
}

/// Are they over two axes of arrays that the last cache does not hold twice? Eight rows by turns then come faster than
/// a few columns down all of them, and rows of one axis alone go by turns.
bool comes_from_far(const RuleContext& context, const Columns& columns) {
  const Block& block = context.schedule.node(columns.ref);
  return columns.outer && columns.outer_rows <= parts_enough && columns.rows >= least_rows &&
         shared_bytes(context.schedule, columns, block, IterKind::reduce) >=
             far_share * static_cast<double>(context.device.caches.back().bytes);
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

/// Loops over blocks of rows, and over the rows of one.
struct Blocks {
  LoopRef parts, rows;
};

/// The loops of parts of columns that part_columns left, by the block below these; nothing of another block.
std::optional<Blocks> blocks_of(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (context.scheduled.contains(ref.name) || !block.f.reducer || block.f.init || block.f.predicate)
    return std::nullopt;
  const std::vector<LoopRef> loops = schedule.loops(ref);
  if (loops.size() != 3) return std::nullopt;
  const For &parts = schedule.node(loops[0]), &rows = schedule.node(loops[1]), &columns = schedule.node(loops[2]);
  const bool laid = !drives(block, IterKind::reduce, parts) && drives(block, IterKind::reduce, rows) &&
                    !drives(block, IterKind::reduce, columns) &&
                    std::all_of(loops.begin(), loops.end(), [&](const LoopRef& loop) {
                      const For& node = schedule.node(loop);
                      return node.for_kind == ForKind::serial && as_int(node.extent) && is_int(node.min, 0);
                    });
  return laid ? std::optional(Blocks{loops[0], loops[1]}) : std::nullopt;
}

/// Does a block of the nest touch an array that does not stay near as the sum does: a row further, or an element, with
/// each iteration of `along`; anyhow where that is null?
bool walks_with(const RuleContext& context, const BlockRef& sum, const Stmt& nest, const LoopRef* along, bool element) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(sum);
  const std::vector<LoopRef> loops = schedule.loops(sum);
  const auto moved = iter_moved_by(block, (element ? loops[2] : loops[1]).variable);
  const double far = near_share * static_cast<double>(own_cache_bytes(context.device)) / most_shared;
  const std::vector<Stmt> others = outer_blocks(nest);
  for (const Access& mine : block_accesses(block)) {
    const double bytes =
        static_cast<double>(mine.buffer->dtype.bytes()) * estimated_elements(mine.buffer, schedule.func()->facts);
    if (mine.store || bytes <= far || !moved || !mine.strides[*moved]) continue;
    const bool found = std::any_of(others.begin(), others.end(), [&](const Stmt& s) {
      const Block& other = *s.as<Block>();
      const std::vector<Access> accesses = block_accesses(other);
      size_t iter = 0;
      if (along) {
        const std::optional<size_t> moved_there = iter_moved_by(other, along->variable);
        if (!moved_there) return false;
        iter = *moved_there;
      }
      return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        return access.buffer == mine.buffer && (!along || access.strides[iter] == mine.strides[*moved]);
      });
    });
    if (found) return true;
  }
  return false;
}

/// May its loop be cut: is it a serial one over rows, or along all their elements, of blocks that no rule has placed?
bool is_free(const RuleContext& context, const Stmt& nest) {
  if (nest.as<For>()->for_kind != ForKind::serial || !bare_statements(nest).empty()) return false;
  const std::vector<Stmt> blocks = outer_blocks(nest);
  return std::none_of(blocks.begin(), blocks.end(), [&](const Stmt& s) {
    const Block& block = *s.as<Block>();
    return context.scheduled.contains(block.f.name) || has_blocks(block) || is_sealed(block);
  });
}

/// The loops over blocks of rows of what part_columns left below the nest; nothing where there is none.
std::optional<Blocks> blocks_below(const RuleContext& context, const Stmt& nest) {
  for (const Stmt& s : outer_blocks(nest)) {
    if (const auto blocks = blocks_of(context, {s.as<Block>()->f.name})) return blocks;
  }
  return std::nullopt;
}

/// The loops of a nest over all rows: along all their elements, over them, or over two axes of them.
struct RowLoops {
  LoopRef first;
  std::optional<LoopRef> second;
  std::int64_t elements = 1;  ///< of a row that an iteration is one of
};

/// Nothing of a nest over other rows than `all`, in blocks of `rows`.
std::optional<RowLoops> row_loops(const Stmt& nest, std::int64_t all, std::int64_t rows, std::int64_t columns) {
  const For& first = *nest.as<For>();
  const For* second = first.body.as<For>();
  const std::int64_t *extent = as_int(first.extent), *within = second ? as_int(second->extent) : nullptr;
  if (!extent || !is_int(first.min, 0)) return std::nullopt;
  if (*extent == all) return RowLoops{{first.variable}, std::nullopt};
  if (*extent == all * columns) return RowLoops{{first.variable}, std::nullopt, columns};
  if (within && is_int(second->min, 0) && *extent * *within == all && *within % rows == 0 &&
      second->for_kind == ForKind::serial)
    return RowLoops{{first.variable}, LoopRef{second->variable}};
  return std::nullopt;
}

/// The same as loops over blocks of rows, and over the rows of one.
Blocks cut_alike(Schedule& schedule, const RowLoops& loops, std::int64_t rows) {
  const auto [parts, within] = split(schedule, loops.second.value_or(loops.first), rows * loops.elements);
  if (loops.second) return {fuse(schedule, loops.first, parts), within};
  return {parts, loops.elements == 1 ? within : split(schedule, within, loops.elements).first};
}

/// Gives the nest of `sum` one loop over blocks of rows, and one over their rows, with another nest that reads or
/// writes the same arrays.
bool join(RuleContext& context, const BlockRef& sum, const Stmt& nest, bool before) {
  Schedule& schedule = context.schedule;
  const Blocks mine = *blocks_of(context, sum);
  const auto extent_of = [&](const LoopRef& loop) { return *as_int(schedule.node(loop).extent); };
  const std::int64_t rows = extent_of(mine.rows), columns = extent_of(schedule.loops(sum).back());
  const std::int64_t all = extent_of(mine.parts) * rows;
  const LoopRef loop{nest.as<For>()->variable};
  const std::optional<Blocks> blocks = blocks_below(context, nest);
  const std::optional<RowLoops> loops = row_loops(nest, all, rows, columns);
  if (!is_free(context, nest) || (!blocks && !loops)) return false;
  const std::optional<LoopRef> along = blocks ? std::nullopt : std::optional(loops->second.value_or(loops->first));
  if (!walks_with(context, sum, nest, along ? &*along : nullptr, along && loops->elements > 1)) return false;
  return attempt(context, fmt::format("sum {} beside {}", sum.name, schedule.place(loop)), [&] {
    const Blocks other = blocks ? *blocks : cut_alike(schedule, *loops, rows);
    const auto& [first, second] = before ? std::pair(other, mine) : std::pair(mine, other);
    join_loops(schedule, first.parts, second.parts);
    join_loops(schedule, first.rows, second.rows);
  });
}

/// Joins one of the nests beside that of `sum` to it; false where none is left to.
bool join_one(RuleContext& context, const BlockRef& sum, std::set<const Var*>& apart) {
  const Schedule& schedule = context.schedule;
  const Stmt own = schedule.find(schedule.loops(sum).front()).back();
  bool before = true;
  for (const Stmt& nest : outermost_statements(schedule.func())) {
    if (nest == own) before = false;
    if (nest == own || !nest.as<For>()) continue;
    if (apart.insert(nest.as<For>()->variable.get()).second && join(context, sum, nest, before)) return true;
  }
  return false;
}

/// Does the statement make a row of its own from rows alone, element by element, as no rule has laid out yet?
bool makes_row(const RuleContext& context, const Stmt& s, std::int64_t columns) {
  const For* loop = s.as<For>();
  const Block* block = loop ? loop->body.as<Block>() : nullptr;
  if (!block || loop->for_kind != ForKind::serial || !is_int(loop->extent, columns) || !only_space(*block) ||
      context.scheduled.contains(block->f.name) || asserts(*block) || block->f.predicate)
    return false;
  const std::optional<size_t> iter = iter_moved_by(*block, loop->variable);
  if (!iter) return false;
  const std::vector<Access> accesses = block_accesses(*block);
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return !access.masked && (access.strides[*iter] == 1 || (access.strides[*iter] == 0 && !access.store));
  });
}

/// Loops along a row around a block: an iteration of the outer one does so many elements, by vectors.
struct Walk {
  BlockRef block;
  LoopRef loop;
  std::int64_t step;
};

/// The block below the loop over rows that makes a row, by vectors from now on; nothing where there is none.
std::optional<Walk> make_row(RuleContext& context, const LoopRef& rows, std::int64_t columns) {
  Schedule& schedule = context.schedule;
  const Seq* body = schedule.node(rows).body.as<Seq>();
  if (!body) return std::nullopt;
  const auto row = std::find_if(body->stmts.begin(), body->stmts.end(),
                                [&](const Stmt& s) { return makes_row(context, s, columns); });
  if (row == body->stmts.end()) return std::nullopt;
  const BlockRef ref{row->as<For>()->body.as<Block>()->f.name};
  vectorize_block(context, ref);
  const std::vector<LoopRef> loops = own_loops(schedule, ref);
  std::int64_t step = 1;
  for (size_t i = 1; i < loops.size(); ++i) step *= *as_int(schedule.node(loops[i]).extent);
  if (loops.size() < 2 || schedule.node(loops.front()).for_kind != ForKind::serial) return std::nullopt;
  return Walk{ref, loops.front(), step};
}

/// Has a sum add vectors along its columns, so many elements in an iteration.
Walk add_vectors(RuleContext& context, const BlockRef& sum, std::int64_t step) {
  Schedule& schedule = context.schedule;
  const auto [loop, elements] = split(schedule, schedule.loops(sum).back(), step);
  const std::int64_t lanes = vector_lanes(schedule.node(sum), context.device);
  if (step <= lanes) {
    vectorize(schedule, elements);
  } else {
    const auto [vectors, within] = split(schedule, elements, lanes);
    unroll(schedule, vectors);
    vectorize(schedule, within);
  }
  context.scheduled.insert(sum.name);
  return {sum, loop, step};
}

/// Lays out a sum below a loop over rows, beside what `walk` says of these, which it begins where there is nothing.
void add_beside(RuleContext& context, const BlockRef& sum, std::optional<Walk>* walk) {
  const Schedule& schedule = context.schedule;
  const std::int64_t lanes = vector_lanes(schedule.node(sum), context.device);
  const Walk own = add_vectors(context, sum, *walk ? (*walk)->step : vectors_at_once * lanes);
  if (!*walk) {
    *walk = own;
    return;
  }
  const std::vector<BlockRef> order = schedule.blocks();
  const bool behind =
      std::find(order.begin(), order.end(), sum) > std::find(order.begin(), order.end(), (*walk)->block);
  const auto& [first, second] = behind ? std::pair(**walk, own) : std::pair(own, **walk);
  if (attempt(context, fmt::format("add up {} beside {}", sum.name, (*walk)->block.name),
              [&] { join_loops(context.schedule, first.loop, second.loop); }))
    (*walk)->loop = first.loop;
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

void join_columns(RuleContext& context) {
  std::vector<BlockRef> sums;
  for (const BlockRef& ref : context.schedule.blocks()) {
    if (blocks_of(context, ref)) sums.push_back(ref);
  }
  for (const BlockRef& sum : sums) {
    std::set<const Var*> apart;
    while (join_one(context, sum, apart)) {
    }
  }
  std::map<const Var*, std::optional<Walk>> walks;  // by the variables of loops over rows
  for (const BlockRef& sum : sums) {
    const std::vector<LoopRef> loops = context.schedule.loops(sum);
    const auto [walk, fresh] = walks.try_emplace(loops[1].variable.get());
    if (fresh) walk->second = make_row(context, loops[1], *as_int(context.schedule.node(loops.back()).extent));
    add_beside(context, sum, &walk->second);
  }
}

}  // namespace lathe
