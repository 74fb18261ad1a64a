#include "ir/conjuncts.h"

namespace lathe {
namespace {

void collect(const Expr& condition, std::vector<Expr>* conjuncts) {
  if (!condition || is_int(condition, 1)) return;
  if (const Binary* binary = condition.as<Binary>(); binary && binary->op == BinaryOp::logical_and) {
    collect(binary->a, conjuncts);
    collect(binary->b, conjuncts);
    return;
  }
  conjuncts->push_back(condition);
}

}  // namespace

std::vector<Expr> conjuncts_of(const Expr& condition) {
  std::vector<Expr> conjuncts;
  collect(condition, &conjuncts);
  return conjuncts;
}

Expr conjunction(const std::vector<Expr>& conjuncts) {
  Expr result;
  for (const Expr& c : conjuncts) result = logical_and(result, c);
  return result;
}

}  // namespace lathe
