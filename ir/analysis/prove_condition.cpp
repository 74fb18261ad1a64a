#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/analysis/simplify_expr.h"

namespace lathe {

Expr simplify(const Expr& e, const Bounds& bounds) {
  return ExprSimplifier(bounds).simplify(e);
}

bool proves(const Bounds& bounds, const Expr& condition) {
  if (!condition) return true;
  for (const Expr& known : bounds.assumptions())
    if (identical(known, condition)) return true;
  if (auto* b = condition.as<Binary>(); b && b->op == BinaryOp::logical_and)
    return proves(bounds, b->a) && proves(bounds, b->b);
  ExprSimplifier simplifier(bounds, full_effort);
  Expr simple = simplifier.simplify(condition);
  if (is_int(simple, 1)) return true;
  if (simple->kind == ExprKind::IntImm) return false;
  if (auto* b = simple.as<Binary>(); b && b->op == BinaryOp::logical_or)
    return proves(bounds, b->a) || proves(bounds, b->b);
  return std::any_of(bounds.assumptions().begin(), bounds.assumptions().end(),
                     [&](const Expr& known) { return identical(simplifier.simplify(known), simple); });
}

bool proves_equal(const Bounds& bounds, const Expr& a, const Expr& b) {
  if (identical(a, b)) return true;
  if (!(a->dtype == b->dtype) || a->dtype.element() != i64) return proves(bounds, eq(a, b));
  ExprSimplifier simplifier(bounds, full_effort);
  Affine x = simplifier.simplify_affine(a), y = simplifier.simplify_affine(b);
  if (equal(x, y)) return true;
  if (may_wrap(bounds, x) || may_wrap(bounds, y)) return false;
  return decide_equal(bounds, x, y) == Truth::yes;
}

Expr point_exists(const Block::Fields& block, const Bounds& bounds) {
  Expr exists;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (block.iters[i].kind != IterKind::space) continue;
    const Range& domain = block.iters[i].domain;
    for (const Expr& condition :
         {ge(block.bindings[i], domain.min), lt(block.bindings[i], domain.min + domain.extent)}) {
      if (!proves(bounds, condition)) exists = logical_and(exists, condition);
    }
  }
  return exists;
}

}  // namespace lathe
