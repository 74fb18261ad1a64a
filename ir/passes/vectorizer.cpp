#include "ir/passes/vectorizer.h"

#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/intrinsics.h"
#include "ir/passes/bounds_scope.h"
#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Thrown when a statement needs lanes one by one but uses a value that exists only as a vector.
struct NoVectorForm {};

class Vectorizer : public Mutator {
 public:
  Vectorizer(const For& loop, int lanes, const Bounds& bounds, const std::unordered_set<const BufferNode*>& contended)
      : loop_(loop), lanes_(lanes), bounds_(bounds), contended_(contended) {
    bounds_.bind(loop.variable, Range{loop.min, loop.extent});
    wide_[loop.variable.get()] = Ramp::make(loop.min, index(1), lanes);
  }

 protected:
  Expr mutate_Var(const Expr& e, const Var* node) override {
    auto found = wide_.find(node);
    return found == wide_.end() ? e : found->second;
  }

  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    Expr a = mutate(node->a), b = mutate(node->b);
    if (a == node->a && b == node->b) return e;
    if (node->a->dtype == i64) {
      if (Expr ramp = affine(node->op, a, b)) return ramp;
    }
    return Binary::make(node->op, widen(a), widen(b));
  }

  Expr mutate_Select(const Expr& e, const Select* node) override {
    Expr condition = mutate(node->condition), when_true = mutate(node->when_true),
         when_false = mutate(node->when_false);
    if (condition == node->condition && when_true == node->when_true && when_false == node->when_false) return e;
    return Select::make(widen(condition), widen(when_true), widen(when_false));
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    std::vector<Expr> indices = access(node->buffer, node->indices);
    Expr mask = mutate(node->mask);
    bool varies = is_wide(indices) || (mask && is_wide(mask));
    if (varies) {
      Expr all = conjoin(mask, mask_);
      return Load::make(privatized(node->buffer), std::move(indices), all ? widen(all) : nullptr);
    }
    if (some_lane_runs_ || in_bounds(*node)) return e;
    return Load::make(node->buffer, std::move(indices), logical_and(mask, any_lane()));
  }

  Expr mutate_Call(const Expr& e, const Call* node) override {
    bool changed = false;
    std::vector<Expr> args = mutate_all(node->args, &changed);
    if (!changed) return e;
    if (node->call_kind != CallKind::intrinsic || node->callee == "permute") throw NoVectorForm();
    for (Expr& arg : args) arg = widen(arg);
    return Call::make(node->dtype.with_lanes(lanes_), node->call_kind, node->callee, std::move(args));
  }

  Expr mutate_AddressOf(const Expr& e, const AddressOf* node) override {
    if (is_wide(access(node->buffer, node->indices))) throw NoVectorForm();
    return e;
  }

  Stmt mutate_For(const Stmt& s, const For* node) override {
    Expr min = mutate(node->min), extent = mutate(node->extent);
    if (is_wide(min) || is_wide(extent) || node->for_kind == ForKind::bound) return lane_by_lane(s);
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    ForKind kind = node->for_kind == ForKind::parallel ? ForKind::serial : node->for_kind;
    return For::make(node->variable, std::move(min), std::move(extent), kind, mutate(node->body), node->annotations);
  }

  Stmt mutate_Block(const Stmt&, const Block* node) override {
    Block::Fields f = node->f;
    for (Buffer& alloc : f.allocs) {
      // What one iteration allocates, every lane has for its own.
      std::vector<Expr> shape = alloc->shape;
      shape.push_back(index(lanes_));
      Buffer own = BufferNode::make(alloc->name, alloc->dtype, std::move(shape), alloc->space);
      private_[alloc.get()] = own;
      alloc = own;
    }
    f.body = mutate(f.body);
    return Block::make(std::move(f));
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    std::vector<Expr> indices = access(node->buffer, node->indices);
    if (!is_wide(indices)) return lane_by_lane(s);
    Expr value, mask;
    try {
      value = widen(mutate(node->value));
      mask = conjoin(mutate(node->mask), mask_);
    } catch (NoVectorForm) {
      return lane_by_lane(s);
    }
    return Store::make(privatized(node->buffer), std::move(indices), std::move(value), mask ? widen(mask) : nullptr);
  }

  Stmt mutate_Let(const Stmt&, const Let* node) override {
    Expr value = mutate(node->value);
    if (is_wide(value)) {
      VarRef wide = Var::make(node->variable->name, value->dtype);
      wide_[node->variable.get()] = wide;
      forget();
      return Let::make(wide, std::move(value), mutate(node->body));
    }
    BoundsScope scope(bounds_);
    if (node->value->dtype == i64) bounds_.bind_value(node->variable, node->value);
    return Let::make(node->variable, std::move(value), mutate(node->body));
  }

  Stmt mutate_If(const Stmt& s, const If* node) override {
    Expr condition = mutate(node->condition);
    if (!is_wide(condition)) {
      Stmt then_case;
      if (mask_) forget();  // which loads are in bounds depends on what is assumed
      {
        BoundsScope scope(bounds_);
        bounds_.assume(node->condition);
        then_case = mutate(node->then_case);
      }
      if (mask_) forget();
      return If::make(std::move(condition), std::move(then_case), mutate(node->else_case));
    }
    if (node->else_case) {
      VarRef chosen = Var::make("chosen", condition->dtype);
      Stmt then_case = under(chosen, node->condition, node->then_case);
      Stmt else_case = under(logical_not(chosen), logical_not(node->condition), node->else_case);
      return Let::make(chosen, std::move(condition), Seq::make({std::move(then_case), std::move(else_case)}));
    }
    std::vector<Expr> uniform, varying;
    BoundsScope scope(bounds_);
    for (const Expr& conjunct : conjuncts_of(node->condition)) {
      Expr wide = mutate(conjunct);
      if (!is_wide(wide)) bounds_.assume(conjunct);
      (is_wide(wide) ? varying : uniform).push_back(std::move(wide));
    }
    Stmt body = under(conjunction(varying), node->condition, node->then_case);
    Expr outer = conjunction(uniform);
    return outer ? If::make(std::move(outer), std::move(body)) : body;
  }

  Stmt mutate_While(const Stmt& s, const While*) override { return lane_by_lane(s); }

  Stmt mutate_Eval(const Stmt& s, const Eval* node) override {
    Expr value;
    try {
      value = mutate(node->value);
    } catch (NoVectorForm) {
      return lane_by_lane(s);
    }
    if (mask_ || value == node->value || !is_wide(value)) return lane_by_lane(s);
    return Eval::make(std::move(value));
  }

  Stmt mutate_Assert(const Stmt& s, const Assert* node) override {
    Expr condition = mutate(node->condition), at = mutate(node->index);
    bool varies = is_wide(condition) || (at && is_wide(at));
    if (!varies) {
      if (some_lane_runs_) return s;
      return Assert::make(logical_or(logical_not(any_lane()), condition), node->message, at);
    }
    condition = widen(condition);
    if (mask_) condition = logical_or(logical_not(mask_), condition);
    return Assert::make(std::move(condition), node->message, at ? widen(at) : nullptr);
  }

 private:
  static bool is_wide(const Expr& e) { return !e->dtype.is_scalar(); }
  static bool is_wide(const std::vector<Expr>& exprs) {
    for (const Expr& e : exprs) {
      if (is_wide(e)) return true;
    }
    return false;
  }
  Expr widen(const Expr& e) const { return is_wide(e) ? e : Broadcast::make(e, lanes_); }
  Expr conjoin(const Expr& a, const Expr& b) const {
    if (!a || !b) return a ? a : b;
    return logical_and(widen(a), widen(b));
  }

  /// i64 arithmetic of ramps with scalars, and of ramps with ramps, that stays a ramp; null otherwise.
  Expr affine(BinaryOp op, const Expr& a, const Expr& b) const {
    const Ramp* x = a.as<Ramp>();
    const Ramp* y = b.as<Ramp>();
    if ((!x && is_wide(a)) || (!y && is_wide(b))) return nullptr;
    Expr a_base = x ? x->base : a, b_base = y ? y->base : b;
    Expr zero = index(0);
    Expr a_step = x ? x->stride : zero, b_step = y ? y->stride : zero;
    switch (op) {
      case BinaryOp::add:
        return ramp(a_base + b_base, a_step + b_step);
      case BinaryOp::sub:
        return ramp(a_base - b_base, a_step - b_step);
      case BinaryOp::mul:
        if (x && y) return nullptr;
        return x ? ramp(a_base * b, a_step * b) : ramp(a * b_base, a * b_step);
      default:
        return nullptr;
    }
  }
  Expr ramp(const Expr& base, const Expr& step) const {
    return is_int(step, 0) ? Broadcast::make(base, lanes_) : Ramp::make(base, step, lanes_);
  }

  Buffer privatized(const Buffer& buffer) const {
    auto found = private_.find(buffer.get());
    return found == private_.end() ? buffer : found->second;
  }
  std::vector<Expr> access(const Buffer& buffer, const std::vector<Expr>& indices) {
    bool changed = false;
    std::vector<Expr> wide = mutate_all(indices, &changed);
    if (private_.count(buffer.get())) wide.push_back(Ramp::make(index(0), index(1), lanes_));
    return wide;
  }

  /// May this scalar load happen even when every lane is masked?
  bool in_bounds(const Load& load) const {
    if (load.mask || load.indices.size() != load.buffer->rank()) return false;
    if (contended_.contains(storage_of(load.buffer))) return false;
    for (size_t d = 0; d < load.indices.size(); ++d) {
      if (!proves(bounds_, ge(load.indices[d], index(0)))) return false;
      if (!proves(bounds_, lt(load.indices[d], load.buffer->shape[d]))) return false;
    }
    return true;
  }
  Expr any_lane() {
    VarRef any = Var::make("any", boolean);
    any_uses_.push_back(any);
    return any;
  }

  /// `body` under the mask `varying` and the one that holds already. The mask is computed once, in front.
  Stmt under(const Expr& varying, const Expr& condition, const Stmt& body) {
    Expr saved_mask = mask_;
    bool saved_runs = some_lane_runs_;
    // Masks of nested conditions all have the first lane, or it is not known that any is left.
    some_lane_runs_ &= proves(bounds_, substitute(condition, {{loop_.variable.get(), loop_.min}}));
    std::vector<VarRef> saved_uses;
    std::swap(saved_uses, any_uses_);
    Expr all = conjoin(varying, mask_);
    VarRef mask = Var::make("mask", all->dtype);
    mask_ = mask;
    conditions_.push_back(condition);
    forget();
    Stmt result = mutate(body);
    forget();
    conditions_.pop_back();
    // One test serves every scalar load below.
    if (!any_uses_.empty()) {
      Substitution same;
      for (size_t i = 1; i < any_uses_.size(); ++i) same[any_uses_[i].get()] = any_uses_[0];
      result = Let::make(any_uses_[0], any_of(mask), substitute(result, same));
    }
    mask_ = saved_mask;
    some_lane_runs_ = saved_runs;
    std::swap(saved_uses, any_uses_);
    return Let::make(mask, std::move(all), std::move(result));
  }

  Expr any_of(const Expr& mask) const {
    int lanes = mask->dtype.lanes;
    if ((lanes & (lanes - 1)) == 0) return reduce_lanes(BinaryOp::logical_or, mask);
    Expr any;
    for (int i = 0; i < lanes; ++i) {
      Expr lane = Shuffle::make({mask}, {i});
      any = any ? logical_or(any, lane) : lane;
    }
    return any;
  }

  /// `s` for each lane in turn. Masks are evaluated again as scalar conditions, so they must not read memory.
  Stmt lane_by_lane(const Stmt& s) {
    Expr guard = conjunction(conditions_);
    Stmt body = guard ? If::make(guard, s) : s;
    for_each_expr(body, [&](const Expr& e) {
      if (const Var* var = e.as<Var>(); var && var != loop_.variable.get() && wide_.count(var)) throw NoVectorForm();
      if (const Load* load = e.as<Load>(); load && private_.count(load->buffer.get())) throw NoVectorForm();
    });
    for_each_stmt(body, [&](const Stmt& below) {
      if (const Store* store = below.as<Store>(); store && private_.count(store->buffer.get())) throw NoVectorForm();
    });
    if (guard) {
      for_each_expr(guard, [&](const Expr& e) {
        if (e.as<Load>()) throw NoVectorForm();
      });
    }
    VarRef lane = Var::make(loop_.variable->name);
    return For::make(lane, loop_.min, index(lanes_), ForKind::serial,
                     substitute(fresh_copy(body), {{loop_.variable.get(), lane}}));
  }

  const For& loop_;
  const int lanes_;
  Bounds bounds_;
  const std::unordered_set<const BufferNode*>& contended_;
  Substitution wide_;             ///< varying variables to their vectors
  BufferMap private_;             ///< what iterations allocate, with a dimension of lanes behind
  Expr mask_;                     ///< lanes that are active; null means all
  bool some_lane_runs_ = true;    ///< mask_ always has its first lane
  std::vector<Expr> conditions_;  ///< the scalar conditions that mask_ was made of
  std::vector<VarRef> any_uses_;
};

}  // namespace

Stmt vectorize(const For& loop, int lanes, const Bounds& bounds,
               const std::unordered_set<const BufferNode*>& contended) {
  try {
    return Vectorizer(loop, lanes, bounds, contended).mutate(loop.body);
  } catch (NoVectorForm) {
    return nullptr;
  }
}

}  // namespace lathe
