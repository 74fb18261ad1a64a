#include "jit/trace/guarded_loads.h"

#include "ir/analysis/remainders.h"
#include "ir/analysis/simplify.h"
#include "ir/visitor.h"
#include "jit/trace/choice_mutator.h"

namespace lathe {
namespace {

bool is_bound(const Expr& e) {
  const Binary* node = e.as<Binary>();
  return e.as<Select>() || (node && (node->op == BinaryOp::max || node->op == BinaryOp::min));
}

int count_bounds(const Expr& e) {
  int count = 0;
  for_each_expr(e, [&](const Expr& part) { count += is_bound(part); });
  return count;
}

class Masker : public ChoiceMutator {
 public:
  explicit Masker(Bounds bounds) : ChoiceMutator(std::move(bounds)) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (!guard() || !node->dtype.is_scalar()) return Mutator::mutate_Load(e, node);
    std::vector<Expr> indices = node->indices;
    bool dropped = false;
    for (Expr& index : indices) {
      const int before = count_bounds(index);
      if (before == 0) continue;
      const Expr simpler = simplify(index, bounds());
      if (count_bounds(simpler) >= before) continue;
      // Windows by quotients are picked in registers, where no mask is in the way.
      if (asks_more() && takes_apart(simpler)) continue;
      index = simpler;
      dropped = true;
    }
    return dropped ? Load::make(node->buffer, std::move(indices), logical_and(guard(), node->mask)) : e;
  }
};

}  // namespace

Expr mask_guarded_loads(const Expr& value, const Bounds& bounds) {
  bool chooses = false;
  for_each_expr(value, [&](const Expr& e) { chooses = chooses || e.as<Select>(); });
  return chooses ? Masker(bounds).mutate(value) : value;
}

}  // namespace lathe
