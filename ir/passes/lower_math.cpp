#include "ir/passes/lower_math.h"

#include <functional>
#include <limits>

#include "ir/analysis/narrow.h"
#include "ir/intrinsics.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/math/functions.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// What an expression is known not to exceed.
double limit_of(const Expr& e) {
  if (without_limit(e) == e) return std::numeric_limits<double>::infinity();
  return math::constant_value(e.as<Call>()->args[1]).value_or(std::numeric_limits<double>::infinity());
}

class MathLowering : public Mutator {
 public:
  explicit MathLowering(const Device& device) : device_(device) {}
  using Mutator::mutate;

 protected:
  Expr mutate_Unary(const Expr& e, const Unary* node) override {
    const Expr a = mutate(node->a);
    if (const Expr lowered = math::lower_unary(*builder_, node->op, a, limit_of(node->a))) return lowered;
    return a == node->a ? e : Unary::make(node->op, a);
  }

  Expr mutate_Call(const Expr& e, const Call* node) override {
    const Expr& value = without_limit(e);
    return value == e ? Mutator::mutate_Call(e, node) : mutate(value);
  }

  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    const Expr x = mutate(node->a), y = mutate(node->b);
    if (const Expr lowered = math::lower_binary(*builder_, node->op, x, y)) return lowered;
    if (const Expr divided = divide_values(*node, x, y)) return divided;
    return x == node->a && y == node->b ? e : Binary::make(node->op, x, y);
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    return bound_before([&] { return Mutator::mutate_Store(s, node); });
  }
  Stmt mutate_Eval(const Stmt& s, const Eval* node) override {
    return bound_before([&] { return Mutator::mutate_Eval(s, node); });
  }
  Stmt mutate_Assert(const Stmt& s, const Assert* node) override {
    return bound_before([&] { return Mutator::mutate_Assert(s, node); });
  }
  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    return bound_before([&] {
      const Expr value = mutate(node->value);
      const Bounds::Mark mark = bounds_.mark();
      if (node->variable->dtype.is_integer()) bounds_.bind_value(node->variable, node->value);
      const Stmt body = mutate(node->body);
      bounds_.rollback(mark);
      return value == node->value && body == node->body ? s : Let::make(node->variable, value, body);
    });
  }
  Stmt mutate_If(const Stmt& s, const If* node) override {
    return bound_before([&] {
      const Expr condition = mutate(node->condition);
      const Stmt then_case = mutate(node->then_case), else_case = mutate(node->else_case);
      if (condition == node->condition && then_case == node->then_case && else_case == node->else_case) return s;
      return If::make(condition, then_case, else_case);
    });
  }
  Stmt mutate_For(const Stmt& s, const For* node) override {
    return bound_before([&] {
      BoundsScope scope(bounds_);
      bounds_.bind(node->variable, Range{node->min, node->extent});
      return Mutator::mutate_For(s, node);
    });
  }
  /// The condition runs again and again: nothing can be bound before it.
  Stmt mutate_While(const Stmt& s, const While* node) override {
    return bound_before([&] { return Mutator::mutate_While(s, node); }, false);
  }
  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    return bound_before([&] { return Mutator::mutate_Block(s, node); }, false);
  }

 private:
  /// A quotient or remainder of integers other than places; null where what is known of them is of no use.
  Expr divide_values(const Binary& node, const Expr& x, const Expr& y) {
    const DType type = node.dtype.element();
    if ((node.op != BinaryOp::floor_div && node.op != BinaryOp::floor_mod) || !type.is_integer() || type.bits > 32)
      return nullptr;
    // Bounds follow no vectors; what fits 32 bits at every step does not wrap.
    const bool known = type == i32 && fits_i32(node.a, bounds_);
    return math::divide_bounded(*builder_, node.op, x, y,
                                known ? lanes_interval(node.a, bounds_) : bounds_.interval(node.a));
  }

  /// Runs `rewrite` with a builder of its own, and puts what it bound around the result.
  Stmt bound_before(const std::function<Stmt()>& rewrite, bool binds = true) {
    math::Builder builder(device_, binds);
    math::Builder* outer = std::exchange(builder_, &builder);
    forget();  // what was bound for another statement is not in scope here
    const Stmt result = builder.wrap(rewrite());
    forget();
    builder_ = outer;
    return result;
  }

  const Device& device_;
  Bounds bounds_;
  math::Builder* builder_ = nullptr;
};

}  // namespace

Func lower_math(const Func& func, const Device& device) {
  const Stmt body = MathLowering(device).mutate(func->body);
  return body == func->body ? func : with_body(func, body);
}

}  // namespace lathe
