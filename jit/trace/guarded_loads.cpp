#include "jit/trace/guarded_loads.h"

#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

bool is_bound(const Expr& e) {
  const Binary* node = e.as<Binary>();
  return node && (node->op == BinaryOp::max || node->op == BinaryOp::min);
}

int count_bounds(const Expr& e) {
  int count = 0;
  for_each_expr(e, [&](const Expr& part) { count += is_bound(part); });
  return count;
}

class Masker : public Mutator {
 public:
  explicit Masker(Bounds bounds) : bounds_(std::move(bounds)) {}

 protected:
  Expr mutate_Select(const Expr& e, const Select* node) override {
    if (!node->dtype.is_scalar() || !compares_indices(node->condition)) return Mutator::mutate_Select(e, node);
    const Expr first = under(node->condition, node->when_true);
    const Expr second = under(logical_not(node->condition), node->when_false);
    if (first == node->when_true && second == node->when_false) return e;
    return Select::make(node->condition, first, second);
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (!guard_ || !node->dtype.is_scalar()) return Mutator::mutate_Load(e, node);
    std::vector<Expr> indices = node->indices;
    bool dropped = false;
    for (Expr& index : indices) {
      const int before = count_bounds(index);
      if (before == 0) continue;
      const Expr simpler = simplify(index, bounds_);
      if (count_bounds(simpler) >= before) continue;
      index = simpler;
      dropped = true;
    }
    return dropped ? Load::make(node->buffer, std::move(indices), logical_and(guard_, node->mask)) : e;
  }

 private:
  Expr under(const Expr& condition, const Expr& value) {
    const Bounds::Mark mark = bounds_.mark();
    const Expr outer = guard_;
    forget();  // what is shared with values outside of the choice becomes another there
    bounds_.assume(condition);
    guard_ = logical_and(outer, condition);
    Expr result = mutate(value);
    guard_ = outer;
    bounds_.rollback(mark);
    forget();
    return result;
  }

  Bounds bounds_;
  Expr guard_;
};

}  // namespace

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

Expr mask_guarded_loads(const Expr& value, const Bounds& bounds) {
  bool chooses = false;
  for_each_expr(value, [&](const Expr& e) { chooses = chooses || e.as<Select>(); });
  return chooses ? Masker(bounds).mutate(value) : value;
}

}  // namespace lathe
