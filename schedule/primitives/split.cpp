#include "schedule/primitives/split.h"

#include <fmt/format.h>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/carried.h"

namespace lathe {
namespace {

bool is_multiple(const Func& func, const Expr& extent, std::int64_t factor) {
  if (factor == 1) return true;
  if (const std::int64_t* value = as_int(extent)) return *value % factor == 0;
  return proves(Bounds(func), eq(floor_mod(extent, factor), index(0)));
}

/// An init has no predicate: it would run for the points of iterations past the end, which are to be no points. Gives
/// the block where one of them may be.
Stmt reaches_points(const Schedule& schedule, const Path& path, std::int64_t factor) {
  const For& node = *path.back().as<For>();
  const Expr rounded = floor_div(node.extent + (factor - 1), factor) * factor;
  Bounds bounds = bounds_at(schedule.func(), path);
  bounds.bind(node.variable, Range{node.min + node.extent, rounded - node.extent});
  Stmt found;
  const std::function<void(const Stmt&)> walk = [&](const Stmt& s) {
    if (const For* loop = s.as<For>()) {
      const Bounds::Mark mark = bounds.mark();
      bounds.bind(loop->variable, Range{loop->min, loop->extent});
      walk(loop->body);
      bounds.rollback(mark);
    } else if (const Seq* seq = s.as<Seq>()) {
      for (const Stmt& child : seq->stmts) walk(child);
    } else if (const Block* block = s.as<Block>(); block && block->f.init) {
      bool drives = false, outside = false, idle = true;
      for (size_t i = 0; i < block->f.iters.size(); ++i) {
        const Iter& iter = block->f.iters[i];
        if (!uses_var(block->f.bindings[i], node.variable.get())) continue;
        idle = false;
        if (iter.kind != IterKind::space) continue;
        drives = true;
        outside |= proves(bounds, ge(block->f.bindings[i], iter.domain.min + iter.domain.extent));
      }
      // A block that the loop drives nothing of runs whole in each iteration.
      if (idle || (drives && !outside)) found = s;
    }
  };
  walk(node.body);
  return found;
}

}  // namespace

std::pair<LoopRef, LoopRef> split(Schedule& schedule, const LoopRef& loop, std::int64_t factor) {
  const Path path = path_to(schedule, loop);
  const For& node = *path.back().as<For>();
  const std::string application = fmt::format("split({}, {})", schedule.place(loop), factor);
  if (factor < 1)
    refuse(schedule, application, 1, "factor is at least 1", path.back(), "cannot be split by this factor");
  if (node.for_kind != ForKind::serial) {
    refuse(schedule, application, 2, "loop is serial", path.back(), "is " + std::string(to_string(node.for_kind)),
           "split before the loop's kind is set");
  }
  const bool exact = is_multiple(schedule.func(), node.extent, factor);
  if (!exact) {
    const std::vector<Stmt> bare = bare_statements(node.body);
    if (!bare.empty()) {
      refuse(schedule, application, 3,
             "the extent is a multiple of factor, or every statement below loop is in a block", bare.front(),
             "is in no block, so no predicate can guard it");
    }
    for_each_stmt(node.body, [&](const Stmt& s) {
      const For* below = s.as<For>();
      if (below && has_load(below->extent) && uses_var(below->extent, node.variable.get()))
        refuse(schedule, application, 3,
               "the extent is a multiple of factor, or every statement below loop is in a block", s,
               "ends by what is loaded, which no predicate guards");
    });
  }
  if (!exact) {
    if (const Stmt reached = reaches_points(schedule, path, factor)) {
      refuse(schedule, application, 4,
             "the extent is a multiple of factor, or past it no block with an init below has a point in its domain",
             reached, "would run its init there again", "decompose_reduction takes the init out");
    }
  }
  const std::string& name = node.variable->name;
  const VarRef outer = Var::make(name + "o"), inner = Var::make(name + "i");
  const Expr position = Expr(outer) * factor + Expr(inner);
  Stmt body = substitute_loops(node.body, {{node.variable.get(), node.min + position}});
  if (!exact) {
    const Expr in_range = lt(position, node.extent);
    body = rewrite_blocks(body, [&](const Block& block) { return add_predicate(block, in_range); });
  }
  body = For::make(inner, index(0), index(factor), ForKind::serial, std::move(body));
  const Expr extent = floor_div(node.extent + (factor - 1), factor);
  body = For::make(outer, index(0), extent, ForKind::serial, std::move(body), node.annotations);
  schedule.commit(replace_last(path, body), application);
  return {{outer}, {inner}};
}

}  // namespace lathe
