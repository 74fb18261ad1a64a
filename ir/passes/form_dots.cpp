#include "ir/passes/form_dots.h"

#include <optional>
#include <unordered_map>

#include "ir/analysis/affine.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// A vector's lanes over and over, or each of its lanes so many times.
Expr repeated(const Expr& vector, int times) {
  std::vector<int> lanes;
  for (int k = 0; k < times; ++k) {
    for (int i = 0; i < vector->dtype.lanes; ++i) lanes.push_back(i);
  }
  return Shuffle::make({vector}, std::move(lanes));
}
Expr stretched(const Expr& vector, int times) {
  std::vector<int> lanes;
  for (int i = 0; i < vector->dtype.lanes; ++i) lanes.insert(lanes.end(), static_cast<size_t>(times), i);
  return Shuffle::make({vector}, std::move(lanes));
}

class DotFormer : public Mutator {
 public:
  explicit DotFormer(const Device& device) : device_(device) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const auto mark = node->annotations.find("tensorize");
    const std::string* name = mark == node->annotations.end() ? nullptr : std::get_if<std::string>(&mark->second);
    const std::int64_t* extent = as_int(node->extent);
    if (!name || !extent || *extent < 2 || *extent > 8 || !is_int(node->min, 0) || !device_.find_intrinsic(*name)) {
      return Mutator::mutate_For(s, node);
    }
    step_ = node->variable.get();
    group_ = static_cast<int>(*extent);
    const Stmt formed = form(node->body);
    return formed ? formed : Mutator::mutate_For(s, node);
  }

  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    if (node->op == BinaryOp::add && (e->dtype.element() == i32 || e->dtype.element() == f32)) {
      for (const auto& [sum, term] : {std::pair(node->a, node->b), std::pair(node->b, node->a)}) {
        if (const auto factors = factors_of(term)) return dot_of_words(mutate(sum), *factors);
      }
    }
    return Mutator::mutate_Binary(e, node);
  }

  Expr mutate_Var(const Expr& e, const Var* node) override {
    const auto found = dots_.find(node);
    return found == dots_.end() ? e : dot_of_words(constant(e->dtype, 0), found->second);
  }

  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    if (const Stmt joined = with_bytes_in_place(s)) return mutate(joined);
    const auto factors = factors_of(node->value);
    if (!factors) return Mutator::mutate_Let(s, node);
    // The factors are bound where their dot was: what they load is loaded there.
    const std::string& name = node->variable->name;
    const VarRef a = Var::make(name + "_a", factors->a->dtype), b = Var::make(name + "_b", factors->b->dtype);
    dots_[node->variable.get()] = {a, b};
    Stmt body = mutate(node->body);
    return Let::make(a, factors->a, Let::make(b, factors->b, std::move(body)));
  }

 private:
  struct Factors {
    Expr a, b;
  };

  /// A store of joined bytes that Lets right before it stand for, without these: what is done to each of the bytes is
  /// then seen to be done to the word. Null where it is something else.
  static Stmt with_bytes_in_place(const Stmt& s) {
    Substitution bytes;
    Stmt at = s;
    for (const Let* let = at.as<Let>(); let; let = at.as<Let>()) {
      if (!let->value->dtype.is_integer() || let->value->dtype.bits != 8) return nullptr;
      bytes[let->variable.get()] = substitute(let->value, bytes);
      at = let->body;
    }
    const Store* store = at.as<Store>();
    if (!store || !as_intrinsic(store->value, "join_bytes")) return nullptr;
    return Store::make(store->buffer, store->indices, substitute(store->value, bytes), store->mask);
  }

  static Expr dot_of_words(Expr sum, const Factors& factors) {
    const bool bytes = sum->dtype.is_integer();
    return bytes ? dot_bytes(std::move(sum), factors.a, factors.b) : dot_halves(std::move(sum), factors.a, factors.b);
  }

  /// Those of a dot_bytes or dot_halves from zero, or of a variable that is one.
  std::optional<Factors> factors_of(const Expr& e) {
    if (const Var* variable = e.as<Var>()) {
      const auto found = dots_.find(variable);
      return found == dots_.end() ? std::nullopt : std::optional(found->second);
    }
    const Call* bytes = as_intrinsic(e, "dot_bytes");
    const Call* dot = bytes ? bytes : as_intrinsic(e, "dot_halves");
    if (!dot) return std::nullopt;
    const Broadcast* same = dot->args[0].as<Broadcast>();
    const Expr& from = same ? same->value : dot->args[0];
    const FloatImm* number = from.as<FloatImm>();
    if (!is_int(from, 0) && !(number && number->value == 0)) return std::nullopt;
    return Factors{mutate(dot->args[1]), mutate(dot->args[2])};
  }

  Stmt form(const Stmt& body) const {
    Substitution values;
    Stmt at = body;
    Expr condition;
    while (true) {
      if (const Let* let = at.as<Let>()) {
        values[let->variable.get()] = substitute(let->value, values);
        at = let->body;
      } else if (const If* branch = at.as<If>(); branch && !branch->else_case) {
        condition = logical_and(condition, substitute(branch->condition, values));
        at = branch->then_case;
      } else {
        break;
      }
    }
    if (condition && uses_var(condition, step_)) return nullptr;
    const Store* store = at.as<Store>();
    if (!store) return nullptr;
    const Expr index = substitute(store->indices[0], values), mask = substitute(store->mask, values);
    const Expr value = substitute(store->value, values);
    if (uses_var(index, step_) || (mask && uses_var(mask, step_))) return nullptr;
    const Binary* sum = value.as<Binary>();
    if (!sum || sum->op != BinaryOp::add) return nullptr;
    for (const auto& [old, term] : {std::pair(sum->a, sum->b), std::pair(sum->b, sum->a)}) {
      const Load* load = old.as<Load>();
      const Binary* product = term.as<Binary>();
      if (!load || load->buffer != store->buffer || !identical(load->indices[0], index)) continue;
      if (load->mask && !(mask && identical(load->mask, mask))) continue;
      if (!product || product->op != BinaryOp::mul) continue;
      const Expr a = factor(product->a, store->buffer), b = factor(product->b, store->buffer);
      if (!a || !b) continue;
      const Stmt sums = Store::make(store->buffer, {index}, dot(old, a, b), mask);
      return condition ? If::make(condition, sums) : sums;
    }
    return nullptr;
  }

  /// The group's lanes of what one factor loads; null when it is something else.
  Expr factor(const Expr& widened, const Buffer& sums) const {
    const int lanes = widened->dtype.lanes;
    Expr e = widened;
    if (const Broadcast* same = e.as<Broadcast>()) e = same->value;
    const Cast* cast = e.as<Cast>();
    if (!cast) return nullptr;
    e = cast->value;
    if (const Broadcast* same = e.as<Broadcast>()) e = same->value;
    const Load* load = e.as<Load>();
    if (!load || load->buffer == sums || (load->mask && uses_var(load->mask, step_))) return nullptr;
    const Ramp* ramp = load->indices[0].as<Ramp>();
    const bool vector = ramp && is_int(ramp->stride, group_) && load->dtype.lanes == lanes;
    if (!vector && !load->indices[0]->dtype.is_scalar()) return nullptr;
    if (!vector && load->mask) return nullptr;
    const std::optional<Expr> first = base(vector ? ramp->base : load->indices[0]);
    if (!first) return nullptr;
    if (vector) {
      return Load::make(load->buffer, {Ramp::make(*first, lathe::index(1), group_ * lanes)},
                        load->mask ? stretched(load->mask, group_) : nullptr);
    }
    const Expr group = Load::make(load->buffer, {Ramp::make(*first, lathe::index(1), group_)});
    return lanes == 1 ? group : repeated(group, lanes);
  }

  /// The index of the first step, of those that follow on each other.
  std::optional<Expr> base(const Expr& index) const {
    Affine form = to_affine(index);
    const VarRef step(step_);
    if (form.coefficient(step) != 1 || !add_term(form, step, -1)) return std::nullopt;
    Expr rest = to_expr(form);
    return uses_var(rest, step_) ? std::nullopt : std::optional(std::move(rest));
  }

  const Device& device_;
  const Var* step_ = nullptr;
  int group_ = 1;
  std::unordered_map<const Var*, Factors> dots_;
};

}  // namespace

Func form_dots(const Func& func, const Device& device) {
  if (device.intrinsics.empty()) return func;
  return with_body(func, DotFormer(device).mutate(func->body));
}

}  // namespace lathe
