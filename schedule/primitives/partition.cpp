#include "schedule/primitives/partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "schedule/carried.h"

namespace lathe {
namespace {

/// Rewrites every block below a statement with what is known around it; loops are bound on the way.
Stmt rewrite_known(const Stmt& s, Bounds& bounds, const std::function<Stmt(const Block&, const Bounds&)>& f) {
  if (const For* loop = s.as<For>()) {
    const Bounds::Mark mark = bounds.mark();
    bounds.bind(loop->variable, Range{loop->min, loop->extent});
    Stmt body = rewrite_known(loop->body, bounds, f);
    bounds.rollback(mark);
    return with_body(*loop, std::move(body));
  }
  if (const Seq* seq = s.as<Seq>()) {
    std::vector<Stmt> stmts;
    stmts.reserve(seq->stmts.size());
    for (const Stmt& child : seq->stmts) stmts.push_back(rewrite_known(child, bounds, f));
    return Seq::make(std::move(stmts));
  }
  if (const Block* block = s.as<Block>()) return f(*block, bounds);
  return s;
}

/// The number of first iterations in which the condition is proved; nothing when it says nothing of the loop.
std::optional<std::int64_t> last_holding(const Expr& condition, const For& loop, Bounds bounds) {
  const std::int64_t* extent = as_int(loop.extent);
  if (!extent || !uses_var(condition, loop.variable.get())) return std::nullopt;
  const auto holds = [&](std::int64_t count) {
    const Bounds::Mark mark = bounds.mark();
    bounds.bind(loop.variable, Range{loop.min, index(count)});
    const bool proved = proves(bounds, condition);
    bounds.rollback(mark);
    return proved;
  };
  std::int64_t low = 0, high = *extent;
  if (holds(high)) return std::nullopt;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

std::optional<std::int64_t> find_point(const For& loop, const Bounds& around) {
  std::optional<std::int64_t> point;
  Bounds bounds = around;
  rewrite_known(loop.body, bounds, [&](const Block& block, const Bounds& inside) {
    for (const Expr& condition : conjuncts_of(block.f.predicate)) {
      const auto count = last_holding(condition, loop, inside);
      if (count && *count > 0) point = std::min(point.value_or(*count), *count);
    }
    return Stmt(&block);
  });
  return point;
}

/// Drops what the predicates below say where the loop's range decides it.
Stmt without_decided(const Stmt& loop, const Bounds& around) {
  Bounds bounds = around;
  return rewrite_known(loop, bounds, [](const Block& block, const Bounds& inside) {
    Expr rest;
    for (const Expr& condition : conjuncts_of(block.f.predicate)) {
      if (!proves(inside, condition)) rest = logical_and(rest, condition);
    }
    return with_fields(block, [&](Block::Fields& f) { f.predicate = rest; });
  });
}

}  // namespace

std::pair<LoopRef, LoopRef> partition(Schedule& schedule, const LoopRef& loop, std::optional<std::int64_t> point) {
  const Path path = path_to(schedule, loop);
  const For& node = *path.back().as<For>();
  const std::string application = point ? fmt::format("partition({}, {})", schedule.place(loop), *point)
                                        : fmt::format("partition({})", schedule.place(loop));
  if (node.for_kind != ForKind::serial) {
    refuse(schedule, application, 1, "loop is serial", path.back(), "is " + std::string(to_string(node.for_kind)));
  }
  const Bounds bounds = bounds_at(schedule.func(), path);
  const std::string inside = "0 < point < extent is proved; without a point, some predicate says where";
  if (!point) {
    point = find_point(node, bounds);
    if (!point) refuse(schedule, application, 2, inside, path.back(), "has no predicate below that it could decide");
  }
  if (*point < 1 || !proves(bounds, lt(index(*point), node.extent))) {
    refuse(
        schedule, application, 2, inside, path.back(),
        *point < 1 ? "has no iteration before that" : fmt::format("is not proved to run more than {} times", *point));
  }
  for (const Stmt& s : outer_blocks(node.body)) {
    const Block& block = *s.as<Block>();
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (block.f.init && block.f.iters[i].kind == IterKind::reduce &&
          uses_var(block.f.bindings[i], loop.variable.get())) {
        refuse(schedule, application, 3,
               "loop drives no reduce iter of a block that has an init, which would run in both parts", s,
               fmt::format("binds reduce iter {} to it", block.f.iters[i].variable->name),
               "decompose_reduction takes the init out");
      }
    }
  }
  const Stmt first = For::make(node.variable, node.min, index(*point), node.for_kind, node.body, node.annotations);
  Stmt second = fresh_copy(
      For::make(node.variable, node.min + *point, node.extent - *point, node.for_kind, node.body, node.annotations));
  second = rewrite_blocks(second, [&](const Block& block) {
    return with_fields(block, [&](Block::Fields& f) { f.name = schedule.unique_name(f.name); });
  });
  const VarRef rest = second.as<For>()->variable;
  const Stmt parts = Seq::make({without_decided(first, bounds), without_decided(second, bounds)});
  schedule.commit(replace_last(path, parts), application);
  return {loop, {rest}};
}

}  // namespace lathe
