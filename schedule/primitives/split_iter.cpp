#include "schedule/primitives/split_iter.h"

#include <fmt/format.h>

#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The block with two iters in the place of one, bound to these loops.
Stmt with_two(const Block& block, size_t iter, std::int64_t factor, std::int64_t count, const VarRef& outer_loop,
              const VarRef& inner_loop, const Bounds& around) {
  const VarRef old = block.f.iters[iter].variable;
  const VarRef outer = Var::make(old->name + "o"), inner = Var::make(old->name + "i");
  const auto split = [&](Block::Fields& f) {
    const auto at = [&](auto& list) { return list.begin() + static_cast<std::ptrdiff_t>(iter); };
    f.iters[iter] = {outer, Range{index(0), index(count)}, f.iters[iter].kind};
    f.iters.insert(at(f.iters) + 1, {inner, Range{index(0), index(factor)}, f.iters[iter].kind});
    f.bindings[iter] = outer_loop;
    f.bindings.insert(at(f.bindings) + 1, Expr(inner_loop));
  };
  return with_iters(block, split, {{old.get(), Expr(outer) * factor + inner}}, around);
}

}  // namespace

std::pair<LoopRef, LoopRef> split_iter(Schedule& schedule, const BlockRef& block, const LoopRef& loop,
                                       std::int64_t factor) {
  const std::string application = fmt::format("split_iter({}, {}, {})", block.name, schedule.place(loop), factor);
  const auto [path, own, iter, extent] = require_driven_iter(schedule, application, block, loop);
  const Path loop_path = path_to(schedule, loop);
  const Block& node = *path.back().as<Block>();
  if (factor < 2 || factor >= extent || extent % factor != 0) {
    refuse(schedule, application, 3, "1 < factor < n, and factor divides n", loop_path.back(),
           fmt::format("runs {} times", extent));
  }
  const std::int64_t count = extent / factor;
  const VarRef outer = Var::make(loop.variable->name + "o"), inner = Var::make(loop.variable->name + "i");
  const Path nest(path.begin() + static_cast<std::ptrdiff_t>(own), path.end());
  Stmt made = with_two(node, iter, factor, count, outer, inner, Bounds(schedule.func()));
  for (size_t level = nest.size() - 1; level-- > 0;) {
    const For& around = *nest[level].as<For>();
    if (&around != loop_path.back().as<For>()) {
      made = with_body(around, std::move(made));
    } else {
      made = For::make(inner, index(0), index(factor), around.for_kind, std::move(made));
      made = For::make(outer, index(0), index(count), around.for_kind, std::move(made), around.annotations);
    }
  }
  const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(own) + 1);
  schedule.commit(replace_last(above, made), application);
  return {LoopRef{outer}, LoopRef{inner}};
}

}  // namespace lathe
