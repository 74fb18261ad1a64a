#include "schedule/primitives/decompose_reduction.h"

#include <fmt/format.h>

#include <unordered_set>

#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

void collect_conjuncts(const Expr& e, std::vector<Expr>& found) {
  const Binary* node = e.as<Binary>();
  if (node && node->op == BinaryOp::logical_and) {
    collect_conjuncts(node->a, found);
    collect_conjuncts(node->b, found);
  } else if (e) {
    found.push_back(e);
  }
}

bool uses_any(const Expr& e, const std::unordered_set<const Var*>& variables) {
  for (const VarRef& used : used_vars(e)) {
    if (variables.contains(used.get())) return true;
  }
  return false;
}

}  // namespace

BlockRef decompose_reduction(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Path path = path_to(schedule, block), loop_path = path_to(schedule, loop);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("decompose_reduction({}, {})", block.name, schedule.place(loop));
  if (!node.f.reducer || !node.f.init) {
    refuse(schedule, application, 1, "block is a reduction with an init", path.back(), "has none");
  }
  const std::string above = "loop is around block, and no loop around loop drives a reduce iter of block";
  size_t level = 0;
  while (level < path.size() && path[level] != loop_path.back()) ++level;
  if (level == path.size()) refuse(schedule, application, 2, above, path.back(), "is not below it");

  std::unordered_set<const Var*> reduce_vars, below;
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
    if (i >= level) below.insert(around->variable.get());
  }

  const std::string mixed =
      "no condition of the predicate, and no loop that drives a space iter, mixes reduce loops with space loops below "
      "loop";
  std::vector<Expr> conjuncts;
  collect_conjuncts(node.f.predicate, conjuncts);
  Expr predicate;
  std::vector<Expr> needed;
  for (const Expr& conjunct : conjuncts) {
    if (!uses_any(conjunct, reduce_vars)) {
      predicate = logical_and(predicate, conjunct);
      needed.push_back(conjunct);
      continue;
    }
    for (const VarRef& used : used_vars(conjunct)) {
      if (!reduce_vars.contains(used.get()) && below.contains(used.get())) {
        refuse(schedule, application, 3, mixed, path.back(), "has a condition on both");
      }
    }
  }
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
  init.predicate = predicate;
  for (const Region& region : node.f.writes) init.writes.push_back(substitute(region, fresh));
  init.body = substitute(fresh_copy(node.f.init), fresh);
  const std::string name = init.name;
  Stmt nest = Block::make(std::move(init));
  if (!starts_at_identity(node)) nest = with_inferred_regions(*nest.as<Block>());
  for (size_t i = path.size(); i-- > level;) {
    const For* around = path[i].as<For>();
    if (!around) continue;
    bool used = false;
    for (const Expr& e : needed) used |= uses_var(e, around->variable.get());
    if (!used) continue;
    const VarRef variable = Var::make(around->variable->name);
    nest = For::make(variable, around->min, around->extent, around->for_kind,
                     substitute_loops(nest, {{around->variable.get(), variable}}), around->annotations);
  }
  Stmt update = with_fields(node, [](Block::Fields& f) { f.init = nullptr; });
  if (!starts_at_identity(node)) update = with_inferred_regions(*update.as<Block>());
  const Stmt rest = replace_last(Path(path.begin() + static_cast<std::ptrdiff_t>(level), path.end()), update);
  schedule.commit(replace_last(loop_path, Seq::make({nest, rest})), application);
  return {name};
}

}  // namespace lathe
