#include "jit/trace/choice_mutator.h"

#include <vector>

#include "ir/conjuncts.h"

namespace lathe {
namespace {

/// Is the condition made of comparisons of i64 alone, without a Load?
bool compares_indices(const Expr& condition) {
  if (!condition->dtype.is_scalar()) return false;
  if (const Unary* node = condition.as<Unary>(); node && node->op == UnaryOp::logical_not)
    return compares_indices(node->a);
  const Binary* node = condition.as<Binary>();
  if (!node) return false;
  if (node->op == BinaryOp::logical_and || node->op == BinaryOp::logical_or)
    return compares_indices(node->a) && compares_indices(node->b);
  bool plain = is_comparison(node->op) && node->a->dtype == i64;
  for_each_expr(condition, [&](const Expr& part) { plain = plain && !part.as<Load>() && !part.as<Call>(); });
  return plain;
}

}  // namespace

Expr ChoiceMutator::mutate_Select(const Expr& e, const Select* node) {
  if (!node->dtype.is_scalar()) return Mutator::mutate_Select(e, node);
  std::vector<Expr> known, others;
  for (const Expr& conjunct : conjuncts_of(node->condition))
    (compares_indices(conjunct) ? known : others).push_back(conjunct);
  if (known.empty()) return Mutator::mutate_Select(e, node);
  const Expr decided = conjunction(known);
  // What else the condition asks for decides nothing where these do not hold.
  const bool outer = asks_more_;
  asks_more_ |= !others.empty();
  bool changed = false;
  for (const Expr& other : others) {
    known.push_back(under(decided, other));
    changed |= known.back() != other;
  }
  const Expr condition = changed ? conjunction(known) : node->condition;
  const Expr first = under(decided, node->when_true);
  asks_more_ = outer;
  const Expr second = others.empty() ? under(logical_not(decided), node->when_false) : mutate(node->when_false);
  if (condition == node->condition && first == node->when_true && second == node->when_false) return e;
  return Select::make(condition, first, second);
}

Expr ChoiceMutator::under(const Expr& condition, const Expr& value) {
  const Bounds::Mark mark = bounds_.mark();
  const Expr outer = guard_;
  forget();
  bounds_.assume(condition);
  guard_ = logical_and(outer, condition);
  Expr result = mutate(value);
  guard_ = outer;
  bounds_.rollback(mark);
  forget();
  return result;
}

}  // namespace lathe
