#include "schedule/primitives/distribute.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/carried.h"

namespace lathe {

LoopRef distribute(Schedule& schedule, const LoopRef& loop, const BlockRef& block) {
  const Path path = path_to(schedule, loop), block_path = path_to(schedule, block);
  const For& node = *path.back().as<For>();
  const std::string application = fmt::format("distribute({}, {})", schedule.place(loop), block.name);
  const auto check = [&](bool holds, const Stmt& culprit, const std::string& note) {
    if (holds) return;
    refuse(schedule, application, 1,
           "loop is serial, its body a sequence of loops and blocks, and block stands in one behind the first of these",
           culprit, note);
  };
  check(node.for_kind == ForKind::serial, path.back(), fmt::format("is {}", to_string(node.for_kind)));
  const Seq* body = node.body.as<Seq>();
  check(body, node.body, "is all that the loop holds");
  const std::vector<Stmt> bare = bare_statements(node.body);
  check(bare.empty(), bare.empty() ? node.body : bare.front(), "is no block");
  const auto at = std::find_if(body->stmts.begin(), body->stmts.end(), [&](const Stmt& s) {
    return std::find(block_path.begin(), block_path.end(), s) != block_path.end();
  });
  check(at != body->stmts.end(), block_path.back(), "lies outside the loop");
  check(at != body->stmts.begin(), block_path.back(), "comes first");
  const Stmt front = Seq::make({body->stmts.begin(), at}), rest = Seq::make({at, body->stmts.end()});
  require_turns(schedule, application, 2,
                "in no iteration does what comes first touch what the rest has touched in an earlier one, where one of "
                "them writes it",
                path, path.back(), front, rest);
  const VarRef variable = Var::make(node.variable->name, node.variable->dtype);
  const Stmt behind = For::make(variable, node.min, node.extent, node.for_kind,
                                substitute_loops(rest, {{node.variable.get(), variable}}), node.annotations);
  schedule.commit(replace_last(path, Seq::make({with_body(node, front), behind})), application);
  return {variable};
}

}  // namespace lathe
