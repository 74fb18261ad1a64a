#include "ir/visitor.h"

#include <unordered_set>

#include "ir/error.h"

namespace lathe {

void Visitor::visit(const Expr& e) {
  switch (e->kind) {
#define LATHE_CASE(name) \
  case ExprKind::name:   \
    return visit_##name(static_cast<const name*>(e.get()));
    LATHE_EXPR_NODES(LATHE_CASE)
#undef LATHE_CASE
  }
}

void Visitor::visit(const Stmt& s) {
  switch (s->kind) {
#define LATHE_CASE(name) \
  case StmtKind::name:   \
    return visit_##name(static_cast<const name*>(s.get()));
    LATHE_STMT_NODES(LATHE_CASE)
#undef LATHE_CASE
  }
}

void Visitor::visit_IntImm(const IntImm*) {}
void Visitor::visit_FloatImm(const FloatImm*) {}
void Visitor::visit_Var(const Var*) {}
void Visitor::visit_Unary(const Unary* node) {
  visit(node->a);
}
void Visitor::visit_Binary(const Binary* node) {
  visit(node->a);
  visit(node->b);
}
void Visitor::visit_Select(const Select* node) {
  visit(node->condition);
  visit(node->when_true);
  visit(node->when_false);
}
void Visitor::visit_Cast(const Cast* node) {
  visit(node->value);
}
void Visitor::visit_Load(const Load* node) {
  visit_buffer(node->buffer);
  for (const Expr& i : node->indices) visit(i);
  if (node->mask) visit(node->mask);
}
void Visitor::visit_Ramp(const Ramp* node) {
  visit(node->base);
  visit(node->stride);
}
void Visitor::visit_Broadcast(const Broadcast* node) {
  visit(node->value);
}
void Visitor::visit_Shuffle(const Shuffle* node) {
  for (const Expr& v : node->vectors) visit(v);
}
void Visitor::visit_Call(const Call* node) {
  for (const Expr& arg : node->args) visit(arg);
}
void Visitor::visit_AddressOf(const AddressOf* node) {
  visit_buffer(node->buffer);
  for (const Expr& i : node->indices) visit(i);
}

void Visitor::visit_For(const For* node) {
  visit(node->min);
  visit(node->extent);
  visit(node->body);
}
void Visitor::visit_Block(const Block* node) {
  const Block::Fields& f = node->f;
  for (const Iter& iter : f.iters) {
    visit(iter.domain.min);
    visit(iter.domain.extent);
  }
  for (const Expr& binding : f.bindings) visit(binding);
  if (f.predicate) visit(f.predicate);
  if (f.init) visit(f.init);
  visit(f.body);
}
void Visitor::visit_Store(const Store* node) {
  visit_buffer(node->buffer);
  for (const Expr& i : node->indices) visit(i);
  visit(node->value);
  if (node->mask) visit(node->mask);
}
void Visitor::visit_Let(const Let* node) {
  visit(node->value);
  visit(node->body);
}
void Visitor::visit_If(const If* node) {
  visit(node->condition);
  visit(node->then_case);
  if (node->else_case) visit(node->else_case);
}
void Visitor::visit_While(const While* node) {
  visit(node->condition);
  visit(node->body);
}
void Visitor::visit_Seq(const Seq* node) {
  for (const Stmt& s : node->stmts) visit(s);
}
void Visitor::visit_Eval(const Eval* node) {
  visit(node->value);
}
void Visitor::visit_Assert(const Assert* node) {
  visit(node->condition);
  if (node->index) visit(node->index);
}

Expr Mutator::mutate(const Expr& e) {
  if (!e) return e;
  if (e->kind == ExprKind::IntImm || e->kind == ExprKind::FloatImm) return e;
  if (e->kind == ExprKind::Var) return mutate_Var(e, static_cast<const Var*>(e.get()));
  if (const Expr* found = memo_.find(e)) return *found;
  Expr result;
  switch (e->kind) {
#define LATHE_CASE(name)                                          \
  case ExprKind::name:                                            \
    result = mutate_##name(e, static_cast<const name*>(e.get())); \
    break;
    LATHE_EXPR_NODES(LATHE_CASE)
#undef LATHE_CASE
  }
  memo_.emplace(e, result);
  return result;
}

Stmt Mutator::mutate(const Stmt& s) {
  if (!s) return s;
  switch (s->kind) {
#define LATHE_CASE(name) \
  case StmtKind::name:   \
    return mutate_##name(s, static_cast<const name*>(s.get()));
    LATHE_STMT_NODES(LATHE_CASE)
#undef LATHE_CASE
  }
  return s;
}

std::vector<Expr> Mutator::mutate_all(const std::vector<Expr>& exprs, bool* changed) {
  std::vector<Expr> result;
  result.reserve(exprs.size());
  for (const Expr& e : exprs) {
    result.push_back(mutate(e));
    if (result.back() != e) *changed = true;
  }
  return result;
}

Region Mutator::mutate_region(const Region& region) {
  Region result = region;
  result.buffer = mutate_buffer(region.buffer);
  for (Range& range : result.ranges) range = {mutate(range.min), mutate(range.extent)};
  return result;
}

Expr Mutator::mutate_IntImm(const Expr& e, const IntImm*) {
  return e;
}
Expr Mutator::mutate_FloatImm(const Expr& e, const FloatImm*) {
  return e;
}
Expr Mutator::mutate_Var(const Expr& e, const Var*) {
  return e;
}

Expr Mutator::mutate_Unary(const Expr& e, const Unary* node) {
  Expr a = mutate(node->a);
  return a == node->a ? e : Unary::make(node->op, std::move(a));
}

Expr Mutator::mutate_Binary(const Expr& e, const Binary* node) {
  Expr a = mutate(node->a), b = mutate(node->b);
  return a == node->a && b == node->b ? e : binary(node->op, std::move(a), std::move(b));
}

Expr Mutator::mutate_Select(const Expr& e, const Select* node) {
  Expr condition = mutate(node->condition), when_true = mutate(node->when_true), when_false = mutate(node->when_false);
  if (condition == node->condition && when_true == node->when_true && when_false == node->when_false) return e;
  return Select::make(std::move(condition), std::move(when_true), std::move(when_false));
}

Expr Mutator::mutate_Cast(const Expr& e, const Cast* node) {
  Expr value = mutate(node->value);
  return value == node->value ? e : Cast::make(node->dtype, std::move(value));
}

Expr Mutator::mutate_Load(const Expr& e, const Load* node) {
  bool changed = false;
  std::vector<Expr> indices = mutate_all(node->indices, &changed);
  Buffer buffer = mutate_buffer(node->buffer);
  Expr mask = mutate(node->mask);
  if (!changed && buffer == node->buffer && mask == node->mask) return e;
  return Load::make(std::move(buffer), std::move(indices), std::move(mask));
}

Expr Mutator::mutate_Ramp(const Expr& e, const Ramp* node) {
  Expr base = mutate(node->base), stride = mutate(node->stride);
  if (base == node->base && stride == node->stride) return e;
  return Ramp::make(std::move(base), std::move(stride), node->dtype.lanes);
}

Expr Mutator::mutate_Broadcast(const Expr& e, const Broadcast* node) {
  Expr value = mutate(node->value);
  return value == node->value ? e : Broadcast::make(std::move(value), node->dtype.lanes);
}

Expr Mutator::mutate_Shuffle(const Expr& e, const Shuffle* node) {
  bool changed = false;
  std::vector<Expr> vectors = mutate_all(node->vectors, &changed);
  return changed ? Shuffle::make(std::move(vectors), node->lanes) : e;
}

Expr Mutator::mutate_Call(const Expr& e, const Call* node) {
  bool changed = false;
  std::vector<Expr> args = mutate_all(node->args, &changed);
  return changed ? Call::make(node->dtype, node->call_kind, node->callee, std::move(args)) : e;
}

Expr Mutator::mutate_AddressOf(const Expr& e, const AddressOf* node) {
  bool changed = false;
  std::vector<Expr> indices = mutate_all(node->indices, &changed);
  Buffer buffer = mutate_buffer(node->buffer);
  if (!changed && buffer == node->buffer) return e;
  return AddressOf::make(std::move(buffer), std::move(indices));
}

Stmt Mutator::mutate_For(const Stmt& s, const For* node) {
  Expr min = mutate(node->min), extent = mutate(node->extent);
  Stmt body = mutate(node->body);
  if (min == node->min && extent == node->extent && body == node->body) return s;
  return For::make(node->variable, std::move(min), std::move(extent), node->for_kind, std::move(body),
                   node->annotations, node->thread_axis);
}

Stmt Mutator::mutate_Block(const Stmt& s, const Block* node) {
  Block::Fields f = node->f;
  bool changed = false;
  const auto update = [&](Expr& e) {
    Expr result = mutate(e);
    changed |= result != e;
    e = std::move(result);
  };
  const auto update_region = [&](Region& region) {
    Buffer buffer = mutate_buffer(region.buffer);
    changed |= buffer != region.buffer;
    region.buffer = std::move(buffer);
    for (Range& range : region.ranges) {
      update(range.min);
      update(range.extent);
    }
  };
  for (Iter& iter : f.iters) {
    update(iter.domain.min);
    update(iter.domain.extent);
  }
  for (Expr& binding : f.bindings) update(binding);
  update(f.predicate);
  for (Region& region : f.reads) update_region(region);
  for (Region& region : f.writes) update_region(region);
  for (Buffer& alloc : f.allocs) {
    Buffer buffer = mutate_buffer(alloc);
    changed |= buffer != alloc;
    alloc = std::move(buffer);
  }
  f.init = mutate(node->f.init);
  f.body = mutate(node->f.body);
  if (!changed && f.init == node->f.init && f.body == node->f.body) return s;
  return Block::make(std::move(f));
}

Stmt Mutator::mutate_Store(const Stmt& s, const Store* node) {
  bool changed = false;
  std::vector<Expr> indices = mutate_all(node->indices, &changed);
  Buffer buffer = mutate_buffer(node->buffer);
  Expr value = mutate(node->value), mask = mutate(node->mask);
  if (!changed && buffer == node->buffer && value == node->value && mask == node->mask) return s;
  return Store::make(std::move(buffer), std::move(indices), std::move(value), std::move(mask));
}

Stmt Mutator::mutate_Let(const Stmt& s, const Let* node) {
  Expr value = mutate(node->value);
  Stmt body = mutate(node->body);
  if (value == node->value && body == node->body) return s;
  return Let::make(node->variable, std::move(value), std::move(body));
}

Stmt Mutator::mutate_If(const Stmt& s, const If* node) {
  Expr condition = mutate(node->condition);
  Stmt then_case = mutate(node->then_case), else_case = mutate(node->else_case);
  if (condition == node->condition && then_case == node->then_case && else_case == node->else_case) return s;
  return If::make(std::move(condition), std::move(then_case), std::move(else_case));
}

Stmt Mutator::mutate_While(const Stmt& s, const While* node) {
  Expr condition = mutate(node->condition);
  Stmt body = mutate(node->body);
  if (condition == node->condition && body == node->body) return s;
  return While::make(std::move(condition), std::move(body));
}

Stmt Mutator::mutate_Seq(const Stmt& s, const Seq* node) {
  std::vector<Stmt> stmts;
  stmts.reserve(node->stmts.size());
  bool changed = false;
  for (const Stmt& child : node->stmts) {
    stmts.push_back(mutate(child));
    changed |= stmts.back() != child;
  }
  return changed ? Seq::make(std::move(stmts)) : s;
}

Stmt Mutator::mutate_Eval(const Stmt& s, const Eval* node) {
  Expr value = mutate(node->value);
  return value == node->value ? s : Eval::make(std::move(value));
}

Stmt Mutator::mutate_Assert(const Stmt& s, const Assert* node) {
  Expr condition = mutate(node->condition), index = mutate(node->index);
  if (condition == node->condition && index == node->index) return s;
  return Assert::make(std::move(condition), node->message, std::move(index));
}

}  // namespace lathe
