#include "ir/length.h"

namespace lathe {
namespace {

/// Takes what it meets off the budget; false when that is spent.
bool is_within(const Expr& e, int& budget) {
  if (--budget < 0) return false;
  switch (e->kind) {
    case ExprKind::Unary:
      return is_within(e.as<Unary>()->a, budget);
    case ExprKind::Binary:
      return is_within(e.as<Binary>()->a, budget) && is_within(e.as<Binary>()->b, budget);
    case ExprKind::Select: {
      const Select* node = e.as<Select>();
      return is_within(node->condition, budget) && is_within(node->when_true, budget) &&
             is_within(node->when_false, budget);
    }
    case ExprKind::Cast:
      return is_within(e.as<Cast>()->value, budget);
    default:
      return true;
  }
}

}  // namespace

bool is_longer(const Expr& e, int nodes) {
  return !is_within(e, nodes);
}

}  // namespace lathe
