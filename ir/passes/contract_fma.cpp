#include "ir/passes/contract_fma.h"

#include <unordered_set>

#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Marks every expression that a decision depends on: indices, conditions, comparisons, casts of floats to integers.
class Decisions : public Visitor {
 public:
  std::unordered_set<const ExprNode*> exact;

  using Visitor::visit;
  void visit(const Expr& e) override {
    if (!deciding_) {
      if (!seen_.insert(e.get()).second) return;
    } else if (!exact.insert(e.get()).second) {
      return;
    }
    Visitor::visit(e);
  }

 protected:
  void visit_Var(const Var* node) override {
    if (deciding_) exact_vars_.insert(node);
  }
  void visit_Binary(const Binary* node) override {
    if (is_comparison(node->op)) return decide({node->a, node->b});
    Visitor::visit_Binary(node);
  }
  void visit_Unary(const Unary* node) override {
    if (node->dtype.is_bool()) return decide({node->a});
    Visitor::visit_Unary(node);
  }
  void visit_Cast(const Cast* node) override {
    if (node->value->dtype.is_float() && !node->dtype.is_float()) return decide({node->value});
    Visitor::visit_Cast(node);
  }
  void visit_Select(const Select* node) override {
    decide({node->condition});
    visit(node->when_true);
    visit(node->when_false);
  }
  void visit_Load(const Load* node) override {
    decide(node->indices);
    if (node->mask) decide({node->mask});
  }
  void visit_AddressOf(const AddressOf* node) override { decide(node->indices); }
  void visit_Store(const Store* node) override {
    decide(node->indices);
    if (node->mask) decide({node->mask});
    visit(node->value);
  }
  void visit_If(const If* node) override {
    decide({node->condition});
    visit(node->then_case);
    if (node->else_case) visit(node->else_case);
  }
  void visit_While(const While* node) override {
    decide({node->condition});
    visit(node->body);
  }
  void visit_Assert(const Assert* node) override {
    decide({node->condition});
    if (node->index) decide({node->index});
  }
  void visit_Let(const Let* node) override {
    visit(node->body);  // uses first: they say what the value is for
    if (exact_vars_.count(node->variable.get())) {
      decide({node->value});
    } else {
      visit(node->value);
    }
  }

 private:
  void decide(const std::vector<Expr>& exprs) {
    bool saved = deciding_;
    deciding_ = true;
    for (const Expr& e : exprs) visit(e);
    deciding_ = saved;
  }

  bool deciding_ = false;
  std::unordered_set<const ExprNode*> seen_;
  std::unordered_set<const Var*> exact_vars_;
};

class Contractor : public Mutator {
 public:
  explicit Contractor(const std::unordered_set<const ExprNode*>& exact) : exact_(exact) {}

 protected:
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    bool sum = node->op == BinaryOp::add || node->op == BinaryOp::sub;
    bool wide_float = e->dtype.code == TypeCode::floating && e->dtype.bits >= 32;
    if (!sum || !wide_float || exact_.count(e.get())) return Mutator::mutate_Binary(e, node);
    bool negate = node->op == BinaryOp::sub;
    if (const Binary* product = product_of(node->b)) {
      Expr a = mutate(product->a);
      return fma(negate ? -a : a, mutate(product->b), mutate(node->a));
    }
    if (const Binary* product = product_of(node->a)) {
      Expr c = mutate(node->b);
      return fma(mutate(product->a), mutate(product->b), negate ? -c : c);
    }
    return Mutator::mutate_Binary(e, node);
  }

 private:
  const Binary* product_of(const Expr& e) const {
    const Binary* binary = e.as<Binary>();
    return binary && binary->op == BinaryOp::mul && !exact_.count(e.get()) ? binary : nullptr;
  }

  const std::unordered_set<const ExprNode*>& exact_;
};

}  // namespace

Func contract_fma(const Func& func, const Device& device) {
  if (!device.fused_multiply_add) return func;
  Decisions decisions;
  decisions.visit(func->body);
  return with_body(func, Contractor(decisions.exact).mutate(func->body));
}

}  // namespace lathe
