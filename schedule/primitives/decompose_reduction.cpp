#include "schedule/primitives/decompose_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool uses_any(const Expr& e, const std::unordered_set<const Var*>& variables) {
  for (const VarRef& used : used_vars(e)) {
    if (variables.contains(used.get())) return true;
  }
  return false;
}

/// The init counts once for all that runs below the loop, so no instance may come twice there.
void check_distinct(const Schedule& schedule, const std::string& application, const Path& path, size_t level) {
  const Block& node = *path.back().as<Block>();
  std::vector<const For*> loops;
  for (size_t i = level; i < path.size(); ++i) {
    if (const For* loop = path[i].as<For>()) loops.push_back(loop);
  }
  const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(level) + 1);
  const For* again = repeating_loop(loops, node.f.bindings, bounds_at(schedule.func(), above));
  if (!again) return;
  refuse(schedule, application, 4, "from loop inward, the loops are proved to run each instance of block once",
         path.back(), fmt::format("may run the same instances in several iterations of {}", again->variable->name));
}

/// What the block's predicate says of space iters alone.
Expr space_guard(const Block& node, const std::unordered_set<const Var*>& reduce_vars) {
  std::vector<Expr> guards;
  for (const Expr& conjunct : conjuncts_of(node.f.predicate)) {
    if (!uses_any(conjunct, reduce_vars)) guards.push_back(conjunct);
  }
  return conjunction(guards);
}

/// Is each part of `conclusion` proved wherever `premise` holds?
bool follows(const Expr& conclusion, const Expr& premise, Bounds bounds) {
  bounds.assume(premise);
  const std::vector<Expr> parts = conjuncts_of(conclusion);
  return std::all_of(parts.begin(), parts.end(), [&](const Expr& part) { return proves(bounds, part); });
}

}  // namespace

BlockRef decompose_reduction(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Path path = path_to(schedule, block), loop_path = path_to(schedule, loop);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("decompose_reduction({}, {})", block.name, schedule.place(loop));
  if (!node.f.reducer || !node.f.init) {
    refuse(schedule, application, 1, "block is a reduction with an init", path.back(), "has none");
  }
  const std::string above =
      "loop is around block, with no other block between, and no loop around loop drives a reduce iter of block";
  size_t level = 0;
  while (level < path.size() && path[level] != loop_path.back()) ++level;
  if (level == path.size()) refuse(schedule, application, 2, above, path.back(), "is not below it");
  for (size_t i = level; i + 1 < path.size(); ++i) {
    if (path[i].as<Block>()) refuse(schedule, application, 2, above, path[i], "stands between");
  }

  std::unordered_set<const Var*> reduce_vars;
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    if (node.f.iters[i].kind == IterKind::space) continue;
    for (const VarRef& used : used_vars(node.f.bindings[i])) reduce_vars.insert(used.get());
  }
  for (size_t i = 0; i < path.size(); ++i) {
    const For* around = path[i].as<For>();
    if (!around) continue;
    if (i < level && reduce_vars.contains(around->variable.get())) {
      refuse(schedule, application, 2, above, path[i], "drives a reduce iter");
    }
  }

  check_distinct(schedule, application, path, level);
  const std::string mixed = "no loop that drives a space iter below loop drives a reduce iter";
  const Bounds bounds = bounds_at(schedule.func(), path);
  // A point has its init whatever the predicate says of its instances, as long as it is in the domain; unless none
  // comes for it here, and none is read.
  const Expr guard = space_guard(node, reduce_vars);
  Bounds guarded = bounds;
  if (guard) guarded.assume(guard);
  std::vector<Expr> needed;
  Block::Fields init;
  init.name = schedule.unique_name(block.name + "_init");
  Substitution fresh;
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    const Iter& iter = node.f.iters[i];
    if (iter.kind != IterKind::space) continue;
    if (uses_any(node.f.bindings[i], reduce_vars))
      refuse(schedule, application, 3, mixed, path.back(), "binds a space iter to a reduce loop");
    const VarRef variable = Var::make(iter.variable->name);
    fresh[iter.variable.get()] = variable;
    init.iters.push_back({variable, iter.domain, IterKind::space});
    init.bindings.push_back(node.f.bindings[i]);
    needed.push_back(node.f.bindings[i]);
  }
  const Expr predicate = point_exists(node.f, bounds);
  const bool guard_suffices =
      predicate && guard && is_allocated(schedule.func(), node.f.writes[0].buffer) && !point_exists(node.f, guarded);
  for (const Region& region : node.f.writes) init.writes.push_back(substitute(region, fresh));
  init.body = substitute(fresh_copy(node.f.init), fresh);
  const std::string name = init.name;
  Stmt update = with_fields(node, [](Block::Fields& f) { f.init = nullptr; });
  if (!starts_at_identity(node)) update = with_inferred_regions(*update.as<Block>());
  const Stmt rest = replace_last(Path(path.begin() + static_cast<std::ptrdiff_t>(level), path.end()), update);
  const auto with_init = [&](const Expr& where) {
    Block::Fields fields = init;
    fields.predicate = where;
    Stmt nest = Block::make(std::move(fields));
    if (!starts_at_identity(node)) nest = with_inferred_regions(*nest.as<Block>());
    for (size_t i = path.size(); i-- > level;) {
      const For* around = path[i].as<For>();
      if (!around) continue;
      bool used = false;
      for (const Expr& e : needed) used |= uses_var(e, around->variable.get());
      if (!used) continue;
      const VarRef variable = Var::make(around->variable->name);
      nest = For::make(variable, around->min, around->extent, around->for_kind,
                       substitute_loops(nest, {{around->variable.get(), variable}}), around->annotations,
                       around->thread_axis);
    }
    return replace_last(loop_path, Seq::make({nest, rest}));
  };
  // With a guard that holds wherever the point lies in the domain, which is the rule for a split's last part, every
  // point has its init; with another, only where nothing of the others is read.
  Stmt body = with_init(guard_suffices ? guard : predicate);
  if (guard_suffices && !follows(guard, predicate, bounds) && !exposed_reads_of(schedule.func(), node, body).empty())
    body = with_init(predicate);
  schedule.commit(std::move(body), application);
  return {name};
}

}  // namespace lathe
