#include "schedule/primitives/split.h"

#include <fmt/format.h>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool is_multiple(const Func& func, const Expr& extent, std::int64_t factor) {
  if (factor == 1) return true;
  if (const std::int64_t* value = as_int(extent)) return *value % factor == 0;
  return proves(Bounds(func), eq(floor_mod(extent, factor), index(0)));
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
