#include <algorithm>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/analysis/simplify_expr.h"
#include "ir/conjuncts.h"
#include "ir/reduction.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

bool is_nothing(const Stmt& s) {
  auto* seq = s.as<Seq>();
  return seq && seq->stmts.empty();
}
Stmt nothing() {
  return Seq::make({});
}

class StmtSimplifier {
 public:
  explicit StmtSimplifier(const Bounds& bounds) : bounds_(bounds), exprs_(bounds_) {}

  Stmt simplify(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::For:
        return simplify_for(s, s.as<For>());
      case StmtKind::Block:
        return simplify_block(s, s.as<Block>());
      case StmtKind::Store:
        return simplify_store(s, s.as<Store>());
      case StmtKind::Let:
        return simplify_let(s, s.as<Let>());
      case StmtKind::If:
        return simplify_if(s, s.as<If>());
      case StmtKind::While: {
        auto* w = s.as<While>();
        Expr condition = expr(w->condition);
        if (is_int(condition, 0)) return nothing();
        Stmt body = simplify(w->body);
        return condition == w->condition && body == w->body ? s : While::make(condition, body);
      }
      case StmtKind::Seq:
        return simplify_seq(s, s.as<Seq>());
      case StmtKind::Eval: {
        auto* e = s.as<Eval>();
        Expr value = expr(e->value);
        return value == e->value ? s : Eval::make(value);
      }
      case StmtKind::Assert: {
        auto* a = s.as<Assert>();
        Expr condition = expr(a->condition), index = expr(a->index);
        if (is_int(condition, 1)) return nothing();
        return condition == a->condition && index == a->index ? s : Assert::make(condition, a->message, index);
      }
    }
    return s;
  }

 private:
  Expr expr(const Expr& e) { return exprs_.simplify(e); }

  /// Everything learned within goes when it ends.
  class Scope {
   public:
    explicit Scope(StmtSimplifier& owner) : owner_(owner), mark_(owner.bounds_.mark()) {}
    ~Scope() {
      owner_.bounds_.rollback(mark_);
      owner_.exprs_.forget();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StmtSimplifier& owner_;
    Bounds::Mark mark_;
  };
  void learned() { exprs_.forget(); }

  Stmt simplify_for(const Stmt& s, const For* loop) {
    Expr min = expr(loop->min), extent = expr(loop->extent);
    if (proves(bounds_, le(extent, index(0)))) {
      if (!drives_init(*loop)) return nothing();
      // Nothing is learned of a variable that has no value.
      Stmt body = simplify(loop->body);
      if (min == loop->min && extent == loop->extent && body == loop->body) return s;
      return For::make(loop->variable, min, extent, loop->for_kind, body, loop->annotations, loop->thread_axis);
    }
    if (is_int(extent, 1) && loop->for_kind != ForKind::bound) {
      if (as_int(min)) {
        Scope scope(*this);
        bounds_.bind(loop->variable, Interval::point(*as_int(min)));
        learned();
        return simplify(loop->body);
      }
      return simplify(substitute(loop->body, {{loop->variable.get(), min}}));
    }
    Scope scope(*this);
    bounds_.bind(loop->variable, Range{min, extent});
    learned();
    if (loop->for_kind == ForKind::vectorized) lanes_.push_back(loop->variable);
    Stmt body = simplify(loop->body);
    if (loop->for_kind == ForKind::vectorized) lanes_.pop_back();
    if (is_nothing(body)) return body;
    if (min == loop->min && extent == loop->extent && body == loop->body) return s;
    return For::make(loop->variable, min, extent, loop->for_kind, body, loop->annotations, loop->thread_axis);
  }

  /// Is it the reduce loop of a block whose init runs also without reduce instances?
  static bool drives_init(const For& loop) {
    bool drives = false;
    for_each_stmt(loop.body, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      if (!block || !block->f.init) return;
      for (size_t i = 0; i < block->f.iters.size(); ++i) {
        drives |= block->f.iters[i].kind == IterKind::reduce && uses_var(block->f.bindings[i], loop.variable.get());
      }
    });
    return drives;
  }

  Region simplify_region(const Region& region, bool* changed) {
    Region result = region;
    for (size_t d = 0; d < result.ranges.size(); ++d) {
      Range& range = result.ranges[d];
      // By its form a whole dimension covers what masks keep inside of it, so that form stays.
      if (d < region.buffer->rank() && is_whole(range, region.buffer->shape[d])) continue;
      Range simple{expr(range.min), expr(range.extent)};
      *changed |= !(simple.min == range.min) || !(simple.extent == range.extent);
      range = simple;
    }
    return result;
  }

  Stmt simplify_block(const Stmt& s, const Block* block) {
    Block::Fields f = block->f;
    bool changed = false;
    auto update = [&](Expr& e) {
      Expr simple = expr(e);
      changed |= !(simple == e);
      e = simple;
    };
    for (Expr& binding : f.bindings) update(binding);
    if (f.predicate) {
      update(f.predicate);
      if (is_int(f.predicate, 1)) f.predicate = nullptr;
      if (f.predicate && is_int(f.predicate, 0) && !f.init && !f.iters.empty()) return nothing();
    }
    for (Iter& iter : f.iters) {
      update(iter.domain.min);
      update(iter.domain.extent);
    }
    Scope scope(*this);
    for (const Iter& iter : f.iters) bounds_.bind(iter.variable, iter.domain);
    learned();
    for (Region& r : f.reads) r = simplify_region(r, &changed);
    for (Region& r : f.writes) r = simplify_region(r, &changed);
    auto child = [&](Stmt& body, bool is_update) {
      Stmt simple = is_update ? simplify_update(*block, body) : simplify(body);
      changed |= !(simple == body);
      body = simple;
    };
    if (f.init) child(f.init, false);
    child(f.body, f.reducer.has_value());
    return changed ? Block::make(std::move(f)) : s;
  }

  /// A reduction keeps the canonical form of its update, which its reducer's other users match.
  Stmt simplify_update(const Block& block, const Stmt& body) {
    auto parts = match_update(block);
    if (!parts || !block.f.reducer) return body;
    bool changed = false;
    auto update = [&](Expr& e) {
      Expr simple = expr(e);
      changed |= !(simple == e);
      e = simple;
    };
    for (ReductionOutput& output : parts->outputs)
      for (Expr& i : output.indices) update(i);
    for (Stmt& s : parts->lets) {
      auto* let = s.as<Let>();
      Expr value = expr(let->value);
      bounds_.bind_value(let->variable, value);
      learned();
      if (value == let->value) continue;
      changed = true;
      s = Let::make(let->variable, value, let->body);
    }
    for (Expr& term : parts->terms) update(term);
    return changed ? make_update(*block.f.reducer, parts->outputs, parts->terms, parts->lets) : body;
  }

  Stmt simplify_store(const Stmt& s, const Store* store) {
    std::vector<Expr> indices;
    bool changed = false;
    for (const Expr& i : store->indices) {
      indices.push_back(expr(i));
      changed |= !(indices.back() == i);
    }
    Expr mask = expr(store->mask);
    if (mask && is_int(mask, 0)) return nothing();
    if (mask && is_int(mask, 1)) mask = nullptr;
    Expr value = expr(store->value);
    changed |= !(mask == store->mask) || !(value == store->value);
    return changed ? Store::make(store->buffer, std::move(indices), value, mask) : s;
  }

  Stmt simplify_let(const Stmt& s, const Let* let) {
    Expr value = expr(let->value);
    if (value->kind == ExprKind::Var || value->kind == ExprKind::IntImm || value->kind == ExprKind::FloatImm)
      return simplify(substitute(let->body, {{let->variable.get(), value}}));
    Scope scope(*this);
    bounds_.bind_value(let->variable, value);
    learned();
    Stmt body = simplify(let->body);
    if (is_nothing(body)) return body;
    return value == let->value && body == let->body ? s : Let::make(let->variable, value, body);
  }

  /// A condition that holds in what follows, but for what leaves one lane of a vector: that lane's number in the place
  /// of the variable would make scalars of what vectorize_loops may have to keep in a vector.
  void assume(const Expr& condition) {
    if (reads_memory(condition)) return;
    learned();
    if (lanes_.empty()) return bounds_.assume(condition);
    const auto is_point = [&](const VarRef& lane) { return bounds_.interval(lane).as_point().has_value(); };
    for (const Expr& part : conjuncts_of(condition)) {
      const Bounds::Mark mark = bounds_.mark();
      bounds_.assume(part);
      if (std::any_of(lanes_.begin(), lanes_.end(), is_point)) bounds_.rollback(mark);
    }
  }

  Stmt simplify_if(const Stmt& s, const If* node) {
    Expr condition = expr(node->condition);
    if (is_int(condition, 1)) return simplify(node->then_case);
    if (is_int(condition, 0)) return node->else_case ? simplify(node->else_case) : nothing();
    Stmt then_case, else_case;
    {
      Scope scope(*this);
      assume(condition);
      then_case = simplify(node->then_case);
    }
    if (node->else_case) {
      Scope scope(*this);
      assume(Unary::make(UnaryOp::logical_not, condition));
      else_case = simplify(node->else_case);
      if (is_nothing(else_case)) else_case = nullptr;
    }
    if (is_nothing(then_case)) {
      if (!else_case) return nothing();
      return If::make(expr(Unary::make(UnaryOp::logical_not, condition)), else_case);
    }
    if (condition == node->condition && then_case == node->then_case && else_case == node->else_case) return s;
    return If::make(condition, then_case, else_case);
  }

  Stmt simplify_seq(const Stmt& s, const Seq* seq) {
    Scope scope(*this);
    std::vector<Stmt> stmts;
    bool changed = false;
    for (const Stmt& child : seq->stmts) {
      Stmt simple = simplify(child);
      changed |= !(simple == child);
      if (is_nothing(simple)) continue;
      stmts.push_back(simple);
      // What was asserted holds in what follows.
      if (auto* assertion = simple.as<Assert>()) assume(assertion->condition);
    }
    return changed ? Seq::make(std::move(stmts)) : s;
  }

  Bounds bounds_;
  ExprSimplifier exprs_;
  std::vector<VarRef> lanes_;  ///< variables of vectorized loops around
};

}  // namespace

Stmt simplify(const Stmt& s, const Bounds& bounds) {
  return StmtSimplifier(bounds).simplify(s);
}

}  // namespace lathe
