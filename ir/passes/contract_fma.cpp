#include "ir/passes/contract_fma.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <vector>

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
      if (!seen_.insert(e.get())) return;
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
  NodeSet<const ExprNode*> seen_;
  std::unordered_set<const Var*> exact_vars_;
};

bool is_sum(const Expr& e) {
  const Binary* binary = e.as<Binary>();
  return binary && (binary->op == BinaryOp::add || binary->op == BinaryOp::sub);
}

bool has_fma(DType dtype) {
  return dtype.code == TypeCode::floating && dtype.bits >= 32;
}

/// How often each Let-bound variable is used, and how often as a term of a sum.
struct LetUses {
  std::unordered_map<const Var*, int> all, in_sums;
  explicit LetUses(const Stmt& s) {
    class Counter : public Visitor {
     public:
      explicit Counter(LetUses& uses) : uses_(uses) {}

     protected:
      void visit_Var(const Var* node) override { ++uses_.all[node]; }
      void visit_Binary(const Binary* node) override {
        if (node->op == BinaryOp::add || node->op == BinaryOp::sub) {
          for (const Expr& e : {node->a, node->b}) {
            if (const Var* var = e.as<Var>()) ++uses_.in_sums[var];
          }
        }
        Visitor::visit_Binary(node);
      }

     private:
      LetUses& uses_;
    };
    Counter(*this).visit(s);
  }
};

/// The choice between a value and minus zero; null where it is none.
const Select* skipped_with_minus_zero(const Expr& e) {
  const Select* choice = e.as<Select>();
  if (!choice) return nullptr;
  const Broadcast* all = choice->when_false.as<Broadcast>();
  const FloatImm* skipped = (all ? all->value : choice->when_false).as<FloatImm>();
  return skipped && skipped->value == 0 && std::signbit(skipped->value) ? choice : nullptr;
}

/// Sums at a time from which on a masked multiply-add, for which the next step waits longer than for an addition alone,
/// is quicker than two instructions: 4 cycles in the place of 3, against half of the instructions (measured on Zen 4
/// for one sum at a time: 1.3 of the time).
constexpr std::int64_t least_masked_sums = 4;

class Contractor : public Mutator {
 public:
  Contractor(const std::unordered_set<const ExprNode*>& exact, const LetUses& uses) : exact_(exact), uses_(uses) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const std::vector<const For*> around = unrolled_;
    const std::unordered_set<const BufferNode*> outside = stored_;
    if (node->for_kind == ForKind::unrolled) {
      unrolled_.push_back(node);
    } else {
      unrolled_.clear();
      stored_.clear();
      for_each_stmt(node->body, [&](const Stmt& below) {
        if (const Store* store = below.as<Store>()) stored_.insert(store->buffer.get());
      });
    }
    const Stmt result = Mutator::mutate_For(s, node);
    unrolled_ = around;
    stored_ = outside;
    return result;
  }
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    if (!is_sum(e) || !has_fma(e->dtype) || exact_.count(e.get())) return Mutator::mutate_Binary(e, node);
    bool negate = node->op == BinaryOp::sub;
    // The product that waits for the iteration before is added to the other, which does not: it then waits once.
    const bool first = continues(node->a) && !continues(node->b);
    if (auto product = first ? std::nullopt : product_of(node->b)) {
      // C less what was skipped with minus zero is C plus zero, which minus zero does not survive.
      if (negate && product->condition) return mutate(node->a) - product->value();
      return product->added_to(mutate(node->a), negate);
    }
    if (auto product = product_of(node->a)) {
      Expr c = mutate(node->b);
      return product->added_to(negate ? -c : c);
    }
    return Mutator::mutate_Binary(e, node);
  }

  Expr mutate_Var(const Expr& e, const Var* node) override {
    auto found = products_.find(node);  // a term next to a product that was contracted instead
    return found == products_.end() ? e : found->second.value();
  }

  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    const Var* variable = node->variable.get();
    const Select* choice = skipped_with_minus_zero(node->value);
    if (choice && sums_at_a_time(node->body) < least_masked_sums) choice = nullptr;
    const Expr value = choice ? choice->when_true : node->value;
    const Binary* product = value.as<Binary>();
    bool folds = product && product->op == BinaryOp::mul && has_fma(product->dtype) && !exact_.count(node->value.get());
    auto all = uses_.all.find(variable), in_sums = uses_.in_sums.find(variable);
    folds = folds && all != uses_.all.end() && all->second == 1 && in_sums != uses_.in_sums.end();
    if (!folds) return Mutator::mutate_Let(s, node);
    // The factors are bound where the product was: what they load is loaded there.
    Factors factors{mutate(product->a), mutate(product->b), choice ? mutate(choice->condition) : nullptr};
    VarRef a = Var::make(variable->name + "_a", factors.a->dtype),
           b = Var::make(variable->name + "_b", factors.b->dtype),
           taken = choice ? Var::make(variable->name + "_taken", factors.condition->dtype) : nullptr;
    products_[variable] = {a, b, taken};
    Stmt body = mutate(node->body);
    if (taken) body = Let::make(taken, std::move(factors.condition), std::move(body));
    return Let::make(a, std::move(factors.a), Let::make(b, std::move(factors.b), std::move(body)));
  }

 private:
  std::unordered_set<const BufferNode*> stored_;  ///< by the innermost loop that is one

  struct Factors {
    Expr a, b, condition;  ///< null where the product is always taken

    Expr value() const { return condition ? Select::make(condition, a * b, constant(a->dtype, -0.0)) : a * b; }
    Expr added_to(const Expr& c, bool negated = false) const {
      const Expr sum = fma(negated ? -a : a, b, c);
      return condition ? Select::make(condition, sum, c) : sum;
    }
  };

  /// Is it a product of what an iteration before may have stored?
  bool continues(const Expr& e) const {
    const Binary* product = e.as<Binary>();
    if (stored_.empty() || !product || product->op != BinaryOp::mul || exact_.count(e.get())) return false;
    const auto is_stored = [&](const Expr& factor) {
      const Load* load = factor.as<Load>();
      return load && stored_.contains(load->buffer.get());
    };
    return is_stored(product->a) || is_stored(product->b);
  }

  /// Into how many elements copies of the statement add that unrolled loops make.
  std::int64_t sums_at_a_time(const Stmt& s) const {
    std::int64_t sums = 1;
    for (const For* loop : unrolled_) {
      bool apart = false;
      for_each_stmt(s, [&](const Stmt& below) {
        const Store* store = below.as<Store>();
        apart |= store && std::any_of(store->indices.begin(), store->indices.end(),
                                      [&](const Expr& e) { return uses_var(e, loop->variable.get()); });
      });
      const std::int64_t* copies = as_int(loop->extent);
      if (apart && copies) sums *= *copies;
    }
    return sums;
  }

  std::optional<Factors> product_of(const Expr& e) {
    if (const Var* var = e.as<Var>()) {
      auto found = products_.find(var);
      return found == products_.end() ? std::nullopt : std::optional(found->second);
    }
    const Binary* binary = e.as<Binary>();
    if (!binary || binary->op != BinaryOp::mul || exact_.count(e.get())) return std::nullopt;
    return Factors{mutate(binary->a), mutate(binary->b), nullptr};
  }

  const std::unordered_set<const ExprNode*>& exact_;
  const LetUses& uses_;
  std::vector<const For*> unrolled_;  ///< loops around, within the innermost that is none such
  std::unordered_map<const Var*, Factors> products_;
};

}  // namespace

Func contract_fma(const Func& func, const Device& device) {
  if (!device.fused_multiply_add) return func;
  Decisions decisions;
  decisions.visit(func->body);
  LetUses uses(func->body);
  return with_body(func, Contractor(decisions.exact, uses).mutate(func->body));
}

}  // namespace lathe
