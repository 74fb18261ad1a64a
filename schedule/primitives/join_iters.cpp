#include "schedule/primitives/join_iters.h"

#include <fmt/format.h>

#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The block with one iter, of `count` elements, in the place of two.
Stmt with_one(const Block& block, size_t outer, size_t inner, std::int64_t factor, std::int64_t count,
              const VarRef& loop, const Bounds& around) {
  const VarRef first = block.f.iters[outer].variable, second = block.f.iters[inner].variable;
  const VarRef joined = Var::make(first->name + "j");
  const auto join = [&](Block::Fields& f) {
    f.iters[outer] = {joined, Range{index(0), index(count)}, f.iters[outer].kind};
    f.bindings[outer] = loop;
    f.iters.erase(f.iters.begin() + static_cast<std::ptrdiff_t>(inner));
    f.bindings.erase(f.bindings.begin() + static_cast<std::ptrdiff_t>(inner));
  };
  return with_iters(block, join,
                    {{first.get(), floor_div(Expr(joined), factor)}, {second.get(), floor_mod(Expr(joined), factor)}},
                    around);
}

}  // namespace

LoopRef join_iters(Schedule& schedule, const BlockRef& block, const LoopRef& outer, const LoopRef& inner) {
  const std::string application =
      fmt::format("join_iters({}, {}, {})", block.name, schedule.place(outer), schedule.place(inner));
  const IterDomain around = require_unordered_domain(schedule, application, block, outer);
  const IterDomain within = require_unordered_domain(schedule, application, block, inner);
  const Block& node = *around.path.back().as<Block>();
  const Path outer_path = path_to(schedule, outer);
  if (node.f.iters[around.iter].kind != node.f.iters[within.iter].kind) {
    refuse(schedule, application, 2, "the loops drive iters of block of the same kind", outer_path.back(),
           "is of another kind than the inner one");
  }
  const For& first = *outer_path.back().as<For>();
  const For* second = first.body.as<For>();
  if (!second || second->variable != inner.variable)
    refuse(schedule, application, 3, "the outer loop holds the inner one directly", outer_path.back(), "does not");
  const std::int64_t count = around.extent * within.extent;
  const VarRef joined = Var::make(first.variable->name + "j");
  Stmt made = with_one(node, around.iter, within.iter, within.extent, count, joined, Bounds(schedule.func()));
  const Path nest(around.path.begin() + static_cast<std::ptrdiff_t>(around.own), around.path.end());
  for (size_t level = nest.size() - 1; level-- > 0;) {
    const For& loop = *nest[level].as<For>();
    if (&loop == second) continue;
    const bool here = &loop == &first;
    made = For::make(here ? joined : loop.variable, here ? index(0) : loop.min, here ? index(count) : loop.extent,
                     loop.for_kind, std::move(made), loop.annotations);
  }
  const Path above(around.path.begin(), around.path.begin() + static_cast<std::ptrdiff_t>(around.own) + 1);
  schedule.commit(replace_last(above, made), application);
  return {joined};
}

}  // namespace lathe
