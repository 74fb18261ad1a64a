#include "schedule/auto/stacked_axis.h"

#include <optional>
#include <set>

#include "ir/conjuncts.h"
#include "ir/visitor.h"
#include "schedule/auto/rule.h"

namespace lathe {
namespace {

/// The first value of the variable for which a comparison of it with a constant comes out differently.
std::optional<std::int64_t> threshold_of(const Expr& condition, const VarRef& variable) {
  const Binary* comparison = condition.as<Binary>();
  if (!comparison || (comparison->op != BinaryOp::lt && comparison->op != BinaryOp::le)) return std::nullopt;
  const bool strict = comparison->op == BinaryOp::lt;
  if (comparison->a == Expr(variable)) {
    const std::int64_t* bound = as_int(comparison->b);
    return bound ? std::optional(strict ? *bound : *bound + 1) : std::nullopt;
  }
  const std::int64_t* bound = comparison->b == Expr(variable) ? as_int(comparison->a) : nullptr;
  return bound ? std::optional(strict ? *bound + 1 : *bound) : std::nullopt;
}

}  // namespace

bool is_stacked_along(const Block& block, const Iter& iter) {
  const std::int64_t* steps = as_int(iter.domain.extent);
  if (!steps || !is_int(iter.domain.min, 0)) return false;
  std::set<std::int64_t> points;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    if (!choice) return;
    for (const Expr& condition : conjuncts_of(choice->condition)) {
      const auto point = threshold_of(condition, iter.variable);
      if (point && 0 < *point && *point < *steps) points.insert(*point);
    }
  });
  return static_cast<std::int64_t>(points.size()) == *steps - 1;
}

std::vector<LoopRef> stacking_loops(const Schedule& schedule, const BlockRef& ref,
                                    const std::function<bool(const Iter& iter, std::int64_t count)>& wanted) {
  const Block& block = schedule.node(ref);
  std::vector<LoopRef> found;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    const std::int64_t* count = as_int(iter.domain.extent);
    if (!count || *count < 2 || !wanted(iter, *count)) continue;
    const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, i);
    if (loop && is_stacked_along(block, iter)) found.push_back(*loop);
  }
  return found;
}

}  // namespace lathe
