#include "ir/passes/neglect_weights.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/fold.h"
#include "ir/intrinsics.h"
#include "ir/reduction.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// e^x is a normal number from here on: ln(2^-126) is -87.34.
constexpr double least_normal = -87.25;

bool is_zero(const Expr& e) {
  const double* value = as_float(e);
  return value && *value == 0;
}

/// A power of what is at most 0, in f32.
bool is_weight(const Expr& e) {
  const Unary* power = e.as<Unary>();
  const Call* argument = power && power->op == UnaryOp::exp ? power->a.as<Call>() : nullptr;
  return argument && argument->callee == "at_most" && e->dtype.element() == f32 && is_zero(argument->args[1]);
}

/// A weight, or one where a mask is true and else zero, rounded to any float type.
bool holds_weight(const Expr& e) {
  if (const Cast* cast = e.as<Cast>()) return cast->dtype.is_float() && holds_weight(cast->value);
  const Select* choice = e.as<Select>();
  if (!choice) return is_weight(e);
  const auto arm = [](const Expr& e) { return is_zero(e) || holds_weight(e); };
  return arm(choice->when_true) && arm(choice->when_false) &&
         !(is_zero(choice->when_true) && is_zero(choice->when_false));
}

using Buffers = std::unordered_set<const BufferNode*>;

/// The Func's own buffers that hold weights and zeros alone.
class Holders : public Visitor {
 public:
  explicit Holders(const Func& func) {
    visit(func->body);
    std::erase_if(own_, [&](const BufferNode* buffer) { return !held_.contains(buffer) || other_.contains(buffer); });
  }
  const Buffers& found() const { return own_; }

 protected:
  void visit_Block(const Block* node) override {
    for (const Buffer& alloc : node->f.allocs) {
      own_.insert(alloc.get());
      const std::optional<Region>& view = alloc->view_of;
      if (view) other_.insert({alloc.get(), view->buffer.get()});
    }
    Visitor::visit_Block(node);
  }
  void visit_Store(const Store* node) override {
    if (holds_weight(node->value)) {
      held_.insert(node->buffer.get());
    } else if (!is_zero(node->value)) {
      other_.insert(node->buffer.get());
    }
    Visitor::visit_Store(node);
  }
  void visit_AddressOf(const AddressOf* node) override {
    other_.insert(node->buffer.get());
    Visitor::visit_AddressOf(node);
  }

 private:
  Buffers own_, held_, other_;
};

/// How an expression hangs on weights.
enum class Use : std::uint8_t { none, factor, other };

/// The terms of a sum.
class Terms {
 public:
  Terms(const ReductionParts& parts, const Buffers& holders) : holders_(holders) {
    for (const Stmt& s : parts.lets) values_[s.as<Let>()->variable.get()] = use(s.as<Let>()->value);
    for (const Expr& term : parts.terms) values_[nullptr] = std::max(values_[nullptr], use(term));
  }
  /// Are weights factors of terms, wherever they are used?
  bool are_products() const {
    return std::all_of(values_.begin(), values_.end(), [](const auto& value) { return value.second != Use::other; });
  }

 private:
  Use use(const Expr& e) const {
    if (!mentions_weights(e)) return Use::none;
    if (const Var* variable = e.as<Var>()) return values_.at(variable);
    if (is_weight(e)) return mentions_weights(e.as<Unary>()->a) ? Use::other : Use::factor;
    if (const Load* load = e.as<Load>()) {
      const bool placed = load->mask && mentions_weights(load->mask);
      return placed || std::any_of(load->indices.begin(), load->indices.end(),
                                   [&](const Expr& index) { return mentions_weights(index); })
                 ? Use::other
                 : Use::factor;
    }
    if (const Cast* cast = e.as<Cast>()) return cast->dtype.is_float() ? use(cast->value) : Use::other;
    if (const Select* choice = e.as<Select>()) {
      if (mentions_weights(choice->condition)) return Use::other;
      return std::max(use(choice->when_true), use(choice->when_false));
    }
    const Binary* product = e.as<Binary>();
    if (!product || product->op != BinaryOp::mul) return Use::other;
    const Use a = use(product->a), b = use(product->b);
    return a == Use::none || b == Use::none ? std::max(a, b) : Use::other;
  }

  bool mentions_weights(const Expr& e) const {
    bool found = false;
    for_each_expr(e, [&](const Expr& part) {
      const auto value = part.as<Var>() ? values_.find(part.as<Var>()) : values_.end();
      found |= is_weight(part) || (part.as<Load>() && holders_.contains(part.as<Load>()->buffer.get())) ||
               (value != values_.end() && value->second != Use::none);
    });
    return found;
  }

  const Buffers& holders_;
  std::unordered_map<const Var*, Use> values_;
};

/// Of the holders those that only sums read, and the sums.
class Readers : public Visitor {
 public:
  explicit Readers(const Func& func) : carriers(Holders(func).found()), holders_(carriers) { visit(func->body); }
  Buffers carriers;
  std::unordered_set<const Block*> sums;

 protected:
  void visit_Block(const Block* node) override {
    if (adds_products(*node)) {
      sums.insert(node);
    } else {
      Visitor::visit_Block(node);
    }
  }
  void visit_Load(const Load* node) override {
    carriers.erase(node->buffer.get());
    Visitor::visit_Load(node);
  }

 private:
  bool adds_products(const Block& block) const {
    if (!block.f.reducer || simple_op(*block.f.reducer) != BinaryOp::add) return false;
    const std::optional<ReductionParts> parts = match_update(block);
    return parts && Terms(*parts, holders_).are_products();
  }

  const Buffers holders_;
};

class Neglecter : public Mutator {
 public:
  explicit Neglecter(const Readers& readers) : readers_(readers) {}

 protected:
  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    const bool outer = std::exchange(in_sum_, readers_.sums.contains(node));
    const Stmt result = Mutator::mutate_Block(s, node);
    in_sum_ = outer;
    return result;
  }
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    forget();
    const bool outer = std::exchange(carried_, readers_.carriers.contains(node->buffer.get()));
    const Stmt result = Mutator::mutate_Store(s, node);
    carried_ = outer;
    forget();
    return result;
  }
  Expr mutate_Unary(const Expr& e, const Unary* node) override {
    if (!(in_sum_ || carried_) || !is_weight(e)) return Mutator::mutate_Unary(e, node);
    return unary(UnaryOp::exp, negligible(node->a, least_normal));
  }

 private:
  const Readers& readers_;
  bool in_sum_ = false, carried_ = false;
};

}  // namespace

Func neglect_weights(const Func& func) {
  const Readers readers(func);
  return with_body(func, Neglecter(readers).mutate(func->body));
}

}  // namespace lathe
