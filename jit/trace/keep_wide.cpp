#include "jit/trace/keep_wide.h"

#include <algorithm>
#include <memory>

#include "jit/trace/promotion.h"

namespace lathe {
namespace {

bool is_widening(const Cast* cast) {
  return cast && is_half(cast->value->dtype) && cast->dtype.is_float() && !is_half(cast->dtype);
}

/// Does the answer hang on how values are rounded beside each other, or on whether they are rounded to infinity?
bool tells_rounded(const Expr& e) {
  if (const Unary* test = e.as<Unary>()) return test->op == UnaryOp::is_inf || test->op == UnaryOp::is_finite;
  const Binary* comparison = e.as<Binary>();
  return comparison && comparison->dtype.is_bool() && comparison->a->dtype.is_float() && has_load(comparison->a) &&
         has_load(comparison->b);
}

/// Elements as they are, or a choice of them.
bool is_moved(const Expr& e) {
  if (const Select* choice = e.as<Select>()) return is_moved(choice->when_true) && is_moved(choice->when_false);
  return e.as<Load>() || e.as<FloatImm>();
}

/// Finds the loads of f16 and bf16 that are widened at once, and those that are not.
class Uses : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (!seen_.insert(e.get())) return;
    const bool outer = rounded_;
    rounded_ |= tells_rounded(e);
    Visitor::visit(e);
    rounded_ = outer;
  }
  /// What stands under a widening, or is to be as wide.
  void visit_wide(const Expr& e) {
    if (const Load* load = e.as<Load>()) {
      if (!rounded_) wide.insert(load->buffer.get());
    } else if (const Select* choice = e.as<Select>()) {
      visit_wide(choice->when_true);
      visit_wide(choice->when_false);
    }
  }

  std::unordered_set<const BufferNode*> wide;

 protected:
  void visit_Cast(const Cast* node) override {
    if (is_widening(node)) visit_wide(node->value);
    Visitor::visit_Cast(node);
  }

 private:
  bool rounded_ = false;
  NodeSet<const ExprNode*> seen_;
};

/// The load of f16 or bf16 that a factor is, but for where it is chosen, or null.
const Load* half_factor(const Expr& factor) {
  const Cast* cast = factor.as<Cast>();
  if (!is_widening(cast)) return nullptr;
  const Expr* e = &cast->value;
  while (const Select* choice = e->as<Select>()) e = &choice->when_true;
  return e->as<Load>();
}

/// Does the load take one element for several instances?
bool is_reused(const Load& load, const ComputeNode& node) {
  return std::any_of(node.iters.begin(), node.iters.end(), [&](const Iter& iter) {
    return std::none_of(load.indices.begin(), load.indices.end(),
                        [&](const Expr& place) { return uses_var(place, iter.variable.get()); });
  });
}

/// The factors of f16 or bf16 of a sum of products that takes some more than once.
std::vector<const BufferNode*> contracted(const ComputeNode& node) {
  const Binary* product = node.reducer && node.values.size() == 1 ? node.values[0].as<Binary>() : nullptr;
  if (!product || product->op != BinaryOp::mul) return {};
  const Load *a = half_factor(product->a), *b = half_factor(product->b);
  if (!a || !b || (!is_reused(*a, node) && !is_reused(*b, node))) return {};
  return {a->buffer.get(), b->buffer.get()};
}

bool is_single_pass(const ComputeNode& node) {
  return !node.reducer && !node.begin && node.values.size() == 1 && is_half(node.buffers[0]->dtype);
}

class Finder {
 public:
  explicit Finder(const BufferMap& outputs) : outputs_(outputs) {}

  /// Readers come before what they read.
  void look_at(const ComputeNode& node) {
    Uses uses;
    const bool may_move = is_candidate(node) && is_moved(node.values[0]);
    for (const Expr& value : node.values) uses.visit(value);
    if (may_move && wanted_.contains(node.buffers[0].get())) uses.visit_wide(node.values[0]);
    wanted_.insert(uses.wide.begin(), uses.wide.end());
    for (const BufferNode* buffer : contracted(node)) kept_.insert(buffer);
  }

  /// Producers come first.
  void choose(const ComputeNode& node) {
    if (!is_candidate(node) || !wanted_.contains(node.buffers[0].get())) return;
    bool moves = false;
    if (!node.rounds && is_moved(node.values[0])) {
      Uses uses;
      uses.visit_wide(node.values[0]);
      moves =
          std::any_of(uses.wide.begin(), uses.wide.end(), [&](const auto* buffer) { return found.contains(buffer); });
    }
    if (node.rounds || moves) found.insert(node.buffers[0].get());
  }

  std::unordered_set<const BufferNode*> found;

 private:
  bool is_candidate(const ComputeNode& node) const {
    const BufferNode* buffer = node.buffers[0].get();
    return is_single_pass(node) && !outputs_.contains(buffer) && !kept_.contains(buffer);
  }

  const BufferMap& outputs_;
  std::unordered_set<const BufferNode*> wanted_, kept_;
};

class Replacer : public Mutator {
 public:
  /// Where `rounds`, everything is taken rounded.
  explicit Replacer(const BufferMap& map, bool rounds = false) : map_(map), rounds_(rounds) {}

  /// The value of `e`, which is f16 or bf16, in a wider type.
  Expr widen(DType dtype, const Expr& e) {
    if (rounds_ || !takes_widened(e)) return convert(dtype, mutate(e));
    if (const Load* load = e.as<Load>()) return convert(dtype, widened_load(*load));
    const Select* choice = e.as<Select>();
    return select(mutate(choice->condition), widen(dtype, choice->when_true), widen(dtype, choice->when_false));
  }

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    return is_widened(node->buffer) ? cast(node->dtype, widened_load(*node)) : Mutator::mutate_Load(e, node);
  }
  Expr mutate_Cast(const Expr& e, const Cast* node) override {
    return is_widening(node) ? widen(node->dtype, node->value) : Mutator::mutate_Cast(e, node);
  }
  Expr mutate_Unary(const Expr& e, const Unary* node) override {
    return is_rounded_here(e) ? rounded(e) : Mutator::mutate_Unary(e, node);
  }
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    return is_rounded_here(e) ? rounded(e) : Mutator::mutate_Binary(e, node);
  }
  Buffer mutate_buffer(const Buffer& buffer) override {
    const auto found = map_.find(buffer.get());
    return found == map_.end() ? buffer : found->second;
  }

 private:
  bool is_rounded_here(const Expr& e) {
    if (rounds_ || !tells_rounded(e)) return false;
    bool widened = false;
    for_each_expr(e, [&](const Expr& part) { widened |= part.as<Load>() && is_widened(part.as<Load>()->buffer); });
    return widened;
  }
  bool is_widened(const Buffer& buffer) { return mutate_buffer(buffer)->dtype != buffer->dtype; }
  bool takes_widened(const Expr& e) {
    const Select* choice = e.as<Select>();
    if (choice) return takes_widened(choice->when_true) || takes_widened(choice->when_false);
    const Load* load = e.as<Load>();
    return load && is_widened(load->buffer);
  }
  Expr widened_load(const Load& node) {
    bool changed = false;
    return Load::make(mutate_buffer(node.buffer), mutate_all(node.indices, &changed),
                      node.mask ? mutate(node.mask) : nullptr);
  }
  /// By a mutator of its own, since what it takes may stand elsewhere too.
  Expr rounded(const Expr& e) {
    if (!rounding_) rounding_ = std::make_unique<Replacer>(map_, true);
    return rounding_->mutate(e);
  }

  const BufferMap& map_;
  const bool rounds_;
  std::unique_ptr<Replacer> rounding_;
};

}  // namespace

std::unordered_set<const BufferNode*> kept_wide(std::span<const ComputeNode* const> computes,
                                                const BufferMap& outputs) {
  const auto may_stay = [](const ComputeNode* node) { return is_single_pass(*node); };
  if (std::none_of(computes.begin(), computes.end(), may_stay)) return {};
  Finder finder(outputs);
  for (size_t k = computes.size(); k-- > 0;) finder.look_at(*computes[k]);
  for (const ComputeNode* node : computes) finder.choose(*node);
  return std::move(finder.found);
}

Expr replace_widened(const Expr& value, const BufferMap& map) {
  return Replacer(map).mutate(value);
}

Expr replace_unrounded(const Expr& value, const BufferMap& map) {
  const Cast* rounding = value.as<Cast>();
  if (rounding && rounding->value->dtype == arithmetic_type(value->dtype)) return Replacer(map).mutate(rounding->value);
  return Replacer(map).widen(arithmetic_type(value->dtype), value);
}

}  // namespace lathe
