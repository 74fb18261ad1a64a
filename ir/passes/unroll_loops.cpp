#include "ir/passes/unroll_loops.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/affine.h"
#include "ir/analysis/fold.h"
#include "ir/analysis/simplify.h"
#include "ir/passes/bounds_scope.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

bool is_nothing(const Stmt& s) {
  const Seq* seq = s.as<Seq>();
  return seq && seq->stmts.empty();
}

bool is_constant(const Expr& e) {
  return e->kind == ExprKind::IntImm || e->kind == ExprKind::FloatImm;
}

const std::int64_t* unrolled_count(const For& loop) {
  return loop.for_kind == ForKind::unrolled ? as_int(loop.extent) : nullptr;
}

/// Builds each copy of each statement once, from the original, whatever the depth of unrolled loops around it. What
/// does not depend on an unrolled loop or on a name bound inside one is shared by all copies.
class Unroller : public Mutator {
 public:
  explicit Unroller(const Func& func) : bounds_(func) {}
  bool changed = false;

  Expr mutate(const Expr& e) override {
    if (!e || depth_ == 0 || !varies(e)) return e;
    if (const Var* var = e.as<Var>()) return values_.at(var);
    if (e->dtype.element() == i64 && !e.as<Load>()) return index_copy(e);
    if (e->dtype.is_bool()) return simplify(rebuilt(e), bounds_);
    return rebuilt(e);
  }
  using Mutator::mutate;

 protected:
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    Expr a = mutate(node->a), b = mutate(node->b);
    if (a == node->a && b == node->b) return e;
    switch (node->op) {  // the folding builders
      case BinaryOp::floor_div:
        return floor_div(a, b);
      case BinaryOp::floor_mod:
        return floor_mod(a, b);
      case BinaryOp::min:
        return min(a, b);
      case BinaryOp::max:
        return max(a, b);
      default:
        return Binary::make(node->op, std::move(a), std::move(b));
    }
  }

  Stmt mutate_For(const Stmt& s, const For* node) override {
    const std::int64_t* count = unrolled_count(*node);
    if (!count) {
      Expr min = mutate(node->min), extent = mutate(node->extent);
      BoundsScope scope(bounds_);
      VarRef variable = renamed(node->variable);
      bounds_.bind(variable, Range{min, extent});
      Stmt body = mutate(node->body);
      bool serializes = node->for_kind == ForKind::unrolled;
      changed |= serializes;
      if (is_nothing(body) && depth_ > 0) return body;
      if (!serializes && body == node->body && min == node->min && extent == node->extent) return s;
      return For::make(variable, std::move(min), std::move(extent), serializes ? ForKind::serial : node->for_kind,
                       std::move(body), node->annotations, node->thread_axis);
    }
    changed = true;
    if (depth_ == 0) find_varying(node);
    std::vector<Stmt> copies;
    copies.reserve(static_cast<size_t>(std::max<std::int64_t>(*count, 0)));
    Expr min = mutate(node->min);
    ++depth_;
    for (std::int64_t i = 0; i < *count; ++i) {
      values_[node->variable.get()] = min + i;
      copies.push_back(mutate(node->body));
    }
    --depth_;
    return Seq::make(std::move(copies));
  }

  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    Expr value = mutate(node->value);
    if (depth_ > 0 && is_constant(value)) {
      values_[node->variable.get()] = value;
      return mutate(node->body);
    }
    BoundsScope scope(bounds_);
    VarRef variable = renamed(node->variable);
    if (value->dtype == i64) bounds_.bind_value(variable, value);
    Stmt body = mutate(node->body);
    if (is_nothing(body) && depth_ > 0) return body;
    if (value == node->value && body == node->body && variable == node->variable) return s;
    return Let::make(std::move(variable), std::move(value), std::move(body));
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    Expr mask = mutate(node->mask);
    if (!mask || !(is_true(mask) || is_false(mask))) return Mutator::mutate_Load(e, node);
    if (is_false(mask)) return zero(e->dtype);
    bool changed = true;
    const Expr load = Load::make(mutate_buffer(node->buffer), mutate_all(node->indices, &changed));
    // The mask alone may have made a vector of one element's load.
    return load->dtype == e->dtype ? load : Broadcast::make(load, e->dtype.lanes);
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    Expr mask = mutate(node->mask);
    if (!mask || !(is_true(mask) || is_false(mask))) return Mutator::mutate_Store(s, node);
    if (is_false(mask)) return Seq::make({});
    bool changed = true;
    std::vector<Expr> indices = mutate_all(node->indices, &changed);
    return Store::make(mutate_buffer(node->buffer), std::move(indices), mutate(node->value));
  }

  Stmt mutate_If(const Stmt& s, const If* node) override {
    Expr condition = mutate(node->condition);
    if (is_int(condition, 1)) return mutate(node->then_case);
    if (is_int(condition, 0)) return node->else_case ? mutate(node->else_case) : Seq::make({});
    Stmt then_case;
    {
      BoundsScope scope(bounds_);
      bounds_.assume(condition);
      then_case = mutate(node->then_case);
    }
    Stmt else_case = mutate(node->else_case);
    if (condition == node->condition && then_case == node->then_case && else_case == node->else_case) return s;
    return If::make(std::move(condition), std::move(then_case), std::move(else_case));
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    if (depth_ == 0) return Mutator::mutate_Block(s, node);
    Block::Fields f = node->f;
    for (Buffer& alloc : f.allocs) {
      Buffer copy = BufferNode::make(alloc->name, alloc->dtype, alloc->shape, alloc->space, alloc->strides,
                                     alloc->offset, alloc->alignment, alloc->view_of);
      buffers_[alloc.get()] = copy;
      alloc = copy;
    }
    f.body = mutate(f.body);
    return Block::make(std::move(f));
  }

  Buffer mutate_buffer(const Buffer& buffer) override {
    auto found = buffers_.find(buffer.get());
    return found == buffers_.end() ? buffer : found->second;
  }

 private:
  /// An i64 expression as what all copies share, plus multiples of unrolled variables, plus a constant.
  struct IndexForm {
    Expr shared;  ///< scalar; null for zero
    Expr stride;  ///< of a ramp; null for none
    std::vector<AffineTerm> varying;
    std::int64_t constant = 0;
    bool plain = false;
  };

  Expr index_copy(const Expr& e) {
    auto [place, is_new] = forms_.try_emplace(e.get());
    if (is_new) place->second = index_form(e);
    const IndexForm& form = place->second;
    if (!form.plain) return simplify(rebuilt(e), bounds_);
    std::int64_t constant = form.constant;
    for (const AffineTerm& term : form.varying) {
      const std::int64_t* value = as_int(values_.at(term.atom.as<Var>()));
      if (!value) return simplify(rebuilt(e), bounds_);
      constant += term.coefficient * *value;
    }
    Expr base = !form.shared ? index(constant) : constant < 0 ? form.shared - (-constant) : form.shared + constant;
    int lanes = e->dtype.lanes;
    return form.stride ? Ramp::make(std::move(base), form.stride, lanes) : Broadcast::make(std::move(base), lanes);
  }

  IndexForm index_form(const Expr& e) {
    IndexForm form;
    Affine all = to_affine(e);
    Affine shared = Affine::of(0), stride = Affine::of(0);
    form.constant = all.constant;
    for (const AffineTerm& term : all.terms) {
      if (!term.atom->dtype.is_scalar()) return form;
      if (term.atom == Expr(lane_variable())) {
        stride.constant = term.coefficient;
      } else if (!varies(term.atom)) {
        if (uses_var(term.atom, lane_variable().get())) return form;
        shared.terms.push_back(term);
      } else if (term.atom.as<Var>()) {
        form.varying.push_back(term);
      } else {
        return form;
      }
    }
    if (!shared.terms.empty()) form.shared = to_expr(shared);
    if (stride.constant != 0) form.stride = index(stride.constant);
    form.plain = true;
    return form;
  }

  Expr rebuilt(const Expr& e) {
    switch (e->kind) {
#define LATHE_CASE(name) \
  case ExprKind::name:   \
    return mutate_##name(e, static_cast<const name*>(e.get()));
      LATHE_EXPR_NODES(LATHE_CASE)
#undef LATHE_CASE
    }
    return e;
  }

  VarRef renamed(const VarRef& variable) {
    if (depth_ == 0) return variable;
    VarRef fresh = Var::make(variable->name, variable->dtype);
    values_[variable.get()] = fresh;
    return fresh;
  }

  /// Notes every name that `loop` and what is below it bind: expressions without them are the same in all copies.
  void find_varying(const For* loop) {
    varying_.insert(loop->variable.get());
    for_each_stmt(loop->body, [&](const Stmt& s) {
      if (const For* inner = s.as<For>()) varying_.insert(inner->variable.get());
      if (const Let* let = s.as<Let>()) varying_.insert(let->variable.get());
      if (const Block* block = s.as<Block>()) {
        for (const Buffer& alloc : block->f.allocs) varying_buffers_.insert(alloc.get());
      }
    });
  }

  bool varies(const Expr& e) {
    if (e->kind == ExprKind::IntImm || e->kind == ExprKind::FloatImm) return false;
    if (const Var* var = e.as<Var>()) return varying_.count(var) != 0;
    auto [place, is_new] = varies_.try_emplace(e.get(), false);
    if (!is_new) return place->second;
    kept_.push_back(e);
    bool result = varies_new(e);
    varies_[e.get()] = result;
    return result;
  }

  bool varies_new(const Expr& e) {
    auto any = [&](const std::vector<Expr>& all) {
      return std::any_of(all.begin(), all.end(), [&](const Expr& sub) { return varies(sub); });
    };
    switch (e->kind) {
      case ExprKind::Unary:
        return varies(e.as<Unary>()->a);
      case ExprKind::Binary:
        return varies(e.as<Binary>()->a) || varies(e.as<Binary>()->b);
      case ExprKind::Select: {
        const Select* select = e.as<Select>();
        return varies(select->condition) || varies(select->when_true) || varies(select->when_false);
      }
      case ExprKind::Cast:
        return varies(e.as<Cast>()->value);
      case ExprKind::Load: {
        const Load* load = e.as<Load>();
        return varying_buffers_.count(load->buffer.get()) || any(load->indices) || (load->mask && varies(load->mask));
      }
      case ExprKind::Ramp:
        return varies(e.as<Ramp>()->base) || varies(e.as<Ramp>()->stride);
      case ExprKind::Broadcast:
        return varies(e.as<Broadcast>()->value);
      case ExprKind::Shuffle:
        return any(e.as<Shuffle>()->vectors);
      case ExprKind::Call:
        return any(e.as<Call>()->args);
      case ExprKind::AddressOf:
        return varying_buffers_.count(e.as<AddressOf>()->buffer.get()) || any(e.as<AddressOf>()->indices);
      default:
        return false;
    }
  }

  Bounds bounds_;
  int depth_ = 0;  ///< unrolled loops around here
  std::unordered_set<const Var*> varying_;
  std::unordered_set<const BufferNode*> varying_buffers_;
  Substitution values_;  ///< of the copy being made: unrolled variables, and the new names of what it binds
  BufferMap buffers_;
  std::unordered_map<const ExprNode*, bool> varies_;
  std::unordered_map<const ExprNode*, IndexForm> forms_;
  std::vector<Expr> kept_;  ///< keeps the nodes that the maps above know by address
};

}  // namespace

Func unroll_loops(const Func& func) {
  Unroller unroller(func);
  Stmt body = unroller.mutate(func->body);
  return unroller.changed ? with_body(func, body) : func;
}

}  // namespace lathe
