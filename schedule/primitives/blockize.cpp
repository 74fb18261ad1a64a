#include "schedule/primitives/blockize.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/analysis/dependence.h"
#include "ir/conjuncts.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/sum_limits.h"

namespace lathe {
namespace {

/// The loops around a level of a path, up to the next block, outermost first.
std::vector<const For*> loops_above(const Path& path, size_t level) {
  std::vector<const For*> loops;
  while (level-- > 0 && !path[level].as<Block>()) {
    if (const For* loop = path[level].as<For>()) loops.insert(loops.begin(), loop);
  }
  return loops;
}

/// Does everything below a loop use a variable from outside of it? Bodies of blocks cannot.
bool uses_below(const Stmt& s, const Var* variable) {
  bool found = false;
  for (Stmt at = s; at;) {
    if (const For* loop = at.as<For>()) {
      found |= uses_var(loop->min, variable) || uses_var(loop->extent, variable);
      at = loop->body;
      continue;
    }
    const Block& block = *at.as<Block>();
    for (const Expr& binding : block.f.bindings) found |= uses_var(binding, variable);
    found |= block.f.predicate && uses_var(block.f.predicate, variable);
    break;
  }
  return found;
}

/// Are the tiles of different iterations of `loops[q]` proved to touch different elements?
bool tiles_apart(const std::vector<const For*>& loops, size_t q, const Stmt& tile, const Bounds& around) {
  std::vector<const For*> nest(loops.size());
  std::vector<Stmt> kept;
  Stmt body = tile;
  for (size_t i = loops.size(); i-- > 0;) {
    body = with_body(*loops[i], body);
    kept.push_back(body);
    nest[i] = body.as<For>();
  }
  std::vector<Direction> directions(loops.size(), Direction::any);
  directions[q] = Direction::later;
  return NestDependences(nest, around).find(directions, 1).empty();
}

/// Does a space iter of the block tell the iterations of all loops that it uses apart, as digits of one number? Then so
/// do the elements that the block touches. Without loops that use it, the iter says nothing. Lower digits that begin at
/// 0 may reach less far, by the limits, than their loops do.
bool counts_by_digits(const Expr& binding, const std::vector<SumLimit>& limits, const std::vector<const For*>& loops,
                      const For* wanted) {
  SumLimit::Terms terms = linear_form(binding).terms, lower;
  std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  bool found = false, from_zero = true;
  std::int64_t reached = 0;
  for (const auto& [atom, weight] : terms) {
    const auto loop = std::find_if(loops.begin(), loops.end(), [&](const For* l) { return Expr(l->variable) == atom; });
    const std::int64_t* extent = loop == loops.end() ? nullptr : as_int((*loop)->extent);
    if (!extent || weight <= reached) return false;
    found |= *loop == wanted;
    from_zero &= is_int((*loop)->min, 0);
    lower.emplace_back(atom, weight);
    reached += weight * (std::max<std::int64_t>(*extent, 1) - 1);
    for (const SumLimit& limit : limits) {
      if (from_zero && limit.is_of(lower)) reached = std::min(reached, limit.most);
    }
  }
  return found;
}

/// Is the iter itself an index of all that the block writes?
bool indexes_writes(const Block& block, const VarRef& iter) {
  return std::all_of(block.f.writes.begin(), block.f.writes.end(), [&](const Region& region) {
    return std::any_of(region.ranges.begin(), region.ranges.end(),
                       [&](const Range& range) { return range.min == Expr(iter) && is_int(range.extent, 1); });
  });
}

/// Is it plain from the block's iters whether tiles of different iterations of `loop` touch different elements? Nothing
/// where a proof has to say it.
std::optional<bool> plainly_apart(const Block& block, const std::vector<const For*>& loops, const For* loop) {
  bool in_space = false;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == IterKind::opaque) return std::nullopt;
    if (!uses_var(block.f.bindings[i], loop->variable.get())) continue;
    if (block.f.iters[i].kind != IterKind::space) continue;
    in_space = true;
    if (indexes_writes(block, block.f.iters[i].variable) &&
        counts_by_digits(block.f.bindings[i], limits_of(block), loops, loop))
      return true;
  }
  return in_space ? std::nullopt : std::optional(false);
}

}  // namespace

BlockRef blockize(Schedule& schedule, const LoopRef& loop) {
  const Path path = path_to(schedule, loop);
  const std::string application = fmt::format("blockize({})", schedule.place(loop));
  std::vector<Stmt> inside;
  Stmt at = path.back();
  for (; at.as<For>(); at = at.as<For>()->body) inside.push_back(at);
  const Block* block = at.as<Block>();
  if (!block) {
    refuse(schedule, application, 1, "below loop stands one block within loops, and nothing else", inside.back(),
           "holds something else");
  }
  const std::vector<const For*> all = loops_above(path, path.size() - 1);
  std::vector<const For*> used;
  for (const For* outer : all) {
    if (uses_below(path.back(), outer->variable.get())) used.push_back(outer);
  }
  for (const For* outer : all) {
    for (const For* other : all) {
      if (!uses_var(outer->min, other->variable.get()) && !uses_var(outer->extent, other->variable.get())) continue;
      refuse(schedule, application, 2, "the bounds of the loops around it, up to the next block, use no loop",
             Stmt(outer), "has bounds that use " + other->variable->name);
    }
  }
  for (size_t i = 0; block->f.init && i < block->f.iters.size(); ++i) {
    for (const For* outer : used) {
      if (block->f.iters[i].kind == IterKind::space || !uses_var(block->f.bindings[i], outer->variable.get())) continue;
      refuse(schedule, application, 3, "block has no init, unless its reduce iters use loops at or below loop alone",
             at, fmt::format("binds {} to {}", block->f.iters[i].variable->name, outer->variable->name),
             "decompose_reduction takes the init out");
    }
  }

  Bounds around(schedule.func());
  for (size_t level = 0; level < path.size(); ++level) {
    if (const Block* outer = path[level].as<Block>()) {
      for (const Iter& iter : outer->f.iters) around.bind(iter.variable, iter.domain);
    }
  }
  Block::Fields tile;
  tile.name = schedule.unique_name(block->f.name + "_tile");
  std::vector<const For*> digits = used;
  for (const Stmt& loop : inside) digits.push_back(loop.as<For>());
  Substitution iters;
  for (size_t q = 0; q < used.size(); ++q) {
    const VarRef variable = Var::make("v" + used[q]->variable->name);
    iters[used[q]->variable.get()] = variable;
    const std::optional<bool> plain = plainly_apart(*block, digits, used[q]);
    const bool apart = plain ? *plain : tiles_apart(used, q, path.back(), around);
    tile.iters.push_back({variable, {used[q]->min, used[q]->extent}, apart ? IterKind::space : IterKind::ordered});
    tile.bindings.emplace_back(used[q]->variable);
  }
  // What no loop inside decides, the tile does: others see by it how far its iters reach. Conditions read no memory, so
  // that none has to guard another; an init runs whatever they say.
  std::vector<Expr> outside, left;
  if (!block->f.init) {
    for (const Expr& condition : conjuncts_of(block->f.predicate)) {
      const bool decided_inside = std::any_of(inside.begin(), inside.end(), [&](const Stmt& loop) {
        return uses_var(condition, loop.as<For>()->variable.get());
      });
      (decided_inside ? left : outside).push_back(condition);
    }
  }
  Stmt body = path.back();
  if (!outside.empty()) {
    tile.predicate = conjunction(outside);
    Block::Fields kept = block->f;
    kept.predicate = left.empty() ? Expr() : conjunction(left);
    body = Block::make(std::move(kept));
    for (size_t i = inside.size(); i-- > 0;) body = with_body(*inside[i].as<For>(), body);
  }
  tile.body = substitute_loops(body, iters);
  const std::string name = tile.name;
  schedule.note_tiles();
  schedule.commit(replace_last(path, Block::make(std::move(tile))), application);
  return {name};
}

}  // namespace lathe
