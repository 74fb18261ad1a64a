#include "schedule/auto/join_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "schedule/auto/block_model.h"
#include "schedule/auto/part_columns.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Vectors that are added to at once where sums alone walk a row.
constexpr std::int64_t vectors_at_once = 2;

/// Loops over blocks of rows, and over the rows of one.
struct Blocks {
  LoopRef parts, rows;
};

/// The loops of parts of columns as part_columns leaves them, by the block below these; nothing of another block.
std::optional<Blocks> blocks_of(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  if (!may_join(context, block) || !block.f.reducer || block.f.init || block.f.predicate) return std::nullopt;
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

/// Do blocks of the nest touch arrays that do not stay near as the sum does: a row further, or an element, with each
/// iteration of `along`; anyhow where that is null?
bool walks_with(const RuleContext& context, const BlockRef& sum, const Stmt& nest, const LoopRef* along, bool element) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(sum);
  const std::vector<LoopRef> loops = schedule.loops(sum);
  const auto moved = iter_moved_by(block, (element ? loops[2] : loops[1]).variable);
  if (!moved) return false;
  const std::vector<Stmt> others = outer_blocks(nest);
  std::set<const BufferNode*> counted;
  double bytes = 0;
  for (const Access& mine : block_accesses(block)) {
    if (mine.store || mine.strides[*moved].value_or(0) == 0) continue;
    const bool found = std::any_of(others.begin(), others.end(), [&](const Stmt& s) {
      const Block& other = *s.as<Block>();
      const Accesses accesses = block_accesses(other);
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
    if (found && counted.insert(mine.buffer.get()).second)
      bytes +=
          static_cast<double>(mine.buffer->dtype.bytes()) * estimated_elements(mine.buffer, schedule.func()->facts);
  }
  return bytes > near_share * static_cast<double>(own_cache_bytes(context.device));
}

/// May its loop be cut: is it a serial one over rows, or along all their elements, of blocks that no rule has placed?
bool is_free(const RuleContext& context, const Stmt& nest) {
  if (nest.as<For>()->for_kind != ForKind::serial || !bare_statements(nest).empty()) return false;
  const std::vector<Stmt> blocks = outer_blocks(nest);
  return std::all_of(blocks.begin(), blocks.end(), [&](const Stmt& s) { return may_join(context, *s.as<Block>()); });
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

/// Does a block of the nest reduce along rows and over them? Its lanes would be lost where others share the loop over
/// rows.
bool reduces_rows(const Schedule& schedule, const Stmt& nest) {
  bool found = false;
  for_each_stmt(nest, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block || !block->f.reducer) return;
    const std::vector<LoopRef> loops = schedule.loops(BlockRef{block->f.name});
    const auto reduces = [&](const LoopRef& loop) { return drives(*block, IterKind::reduce, schedule.node(loop)); };
    found |= reduces(loops.back()) && std::any_of(loops.begin(), loops.end() - 1, reduces);
  });
  return found;
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
  if (!is_free(context, nest) || (!blocks && !loops) || reduces_rows(schedule, nest)) return false;
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
  const Accesses accesses = block_accesses(*block);
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

/// Has a sum add vectors along its columns, so many elements in an iteration; nothing where it may not.
std::optional<Walk> add_vectors(RuleContext& context, const BlockRef& sum, std::int64_t step) {
  Schedule& schedule = context.schedule;
  std::optional<Walk> walk;
  attempt(context, fmt::format("add {} elements of {} at once", step, sum.name), [&] {
    const auto [loop, elements] = split(schedule, schedule.loops(sum).back(), step);
    vectorize_columns(schedule, elements, vector_lanes(schedule.node(sum), context.device));
    context.scheduled.insert(sum.name);
    walk = Walk{sum, loop, step};
  });
  return walk;
}

/// Lays out a sum below a loop over rows, beside what `walk` says of these, which it begins where there is nothing.
void add_beside(RuleContext& context, const BlockRef& sum, std::optional<Walk>* walk) {
  const Schedule& schedule = context.schedule;
  const std::int64_t lanes = vector_lanes(schedule.node(sum), context.device);
  const std::optional<Walk> own = add_vectors(context, sum, *walk ? (*walk)->step : vectors_at_once * lanes);
  if (!own || !*walk) {
    if (own) *walk = own;
    return;
  }
  const std::vector<BlockRef> order = schedule.blocks();
  const bool behind =
      std::find(order.begin(), order.end(), sum) > std::find(order.begin(), order.end(), (*walk)->block);
  const auto& [first, second] = behind ? std::pair(**walk, *own) : std::pair(*own, **walk);
  if (attempt(context, fmt::format("add up {} beside {}", sum.name, (*walk)->block.name),
              [&] { join_loops(context.schedule, first.loop, second.loop); }))
    (*walk)->loop = first.loop;
}

}  // namespace

void join_columns(RuleContext& context) {
  if (own_cache_bytes(context.device) == 0) return;
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
