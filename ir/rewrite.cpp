#include "ir/error.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

class Substituter : public Mutator {
 public:
  explicit Substituter(const Substitution& map) : map_(map) {}

 protected:
  Expr mutate_Var(const Expr& e, const Var* node) override {
    const auto found = map_.find(node);
    return found == map_.end() ? e : found->second;
  }

 private:
  friend Region lathe::substitute(const Region&, const Substitution&);
  const Substitution& map_;
};

class BufferReplacer : public Mutator {
 public:
  explicit BufferReplacer(const BufferMap& map) : map_(map) {}

 protected:
  Buffer mutate_buffer(const Buffer& buffer) override {
    const auto found = map_.find(buffer.get());
    return found == map_.end() ? buffer : found->second;
  }

 private:
  const BufferMap& map_;
};

/// Renames every binding on the way down, so that uses below see the new one.
class Freshener : public Mutator {
 protected:
  Expr mutate_Var(const Expr& e, const Var* node) override {
    const auto found = variables_.find(node);
    return found == variables_.end() ? e : Expr(found->second);
  }

  Buffer mutate_buffer(const Buffer& buffer) override {
    const auto found = buffers_.find(buffer.get());
    return found == buffers_.end() ? buffer : found->second;
  }

  Stmt mutate_For(const Stmt&, const For* node) override {
    Expr min = mutate(node->min), extent = mutate(node->extent);
    VarRef variable = renew(node->variable);
    return For::make(std::move(variable), std::move(min), std::move(extent), node->for_kind, mutate(node->body),
                     node->annotations, node->thread_axis);
  }

  Stmt mutate_Let(const Stmt&, const Let* node) override {
    Expr value = mutate(node->value);
    VarRef variable = renew(node->variable);
    return Let::make(std::move(variable), std::move(value), mutate(node->body));
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    Block::Fields f = node->f;
    for (Iter& iter : f.iters) iter.variable = renew(iter.variable);
    for (const Buffer& buffer : f.allocs) {
      std::vector<Expr> shape, strides;
      for (const Expr& e : buffer->shape) shape.push_back(mutate(e));
      for (const Expr& e : buffer->strides) strides.push_back(mutate(e));
      std::optional<Region> view = buffer->view_of;
      if (view) view = mutate_region(*view);
      buffers_[buffer.get()] = BufferNode::make(buffer->name, buffer->dtype, std::move(shape), buffer->space,
                                                std::move(strides), mutate(buffer->offset), buffer->alignment, view);
    }
    if (f.reducer) {
      Reducer& reducer = *f.reducer;
      for (VarRef& v : reducer.lhs) v = renew(v);
      for (VarRef& v : reducer.rhs) v = renew(v);
      for (Expr& e : reducer.results) e = mutate(e);
    }
    const Stmt renamed = Block::make(std::move(f));
    return Mutator::mutate_Block(renamed, renamed.as<Block>());
  }

 private:
  VarRef renew(const VarRef& variable) {
    forget();
    return variables_[variable.get()] = Var::make(variable->name, variable->dtype);
  }

  std::unordered_map<const Var*, VarRef> variables_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
};

class ExprWalker : public Visitor {
 public:
  explicit ExprWalker(const std::function<void(const Expr&)>& f) : f_(f) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (!seen_.insert(e.get())) return;
    f_(e);
    Visitor::visit(e);
  }

 protected:
  void visit_Block(const Block* node) override {
    for (const Expr& binding : node->f.bindings) visit(binding);
    if (node->f.predicate) visit(node->f.predicate);
    if (node->f.init) visit(node->f.init);
    visit(node->f.body);
  }

 private:
  const std::function<void(const Expr&)>& f_;
  NodeSet<const ExprNode*> seen_;
};

}  // namespace

Expr substitute(const Expr& e, const Substitution& map) {
  return e && !map.empty() ? Substituter(map).mutate(e) : e;
}
Stmt substitute(const Stmt& s, const Substitution& map) {
  return s && !map.empty() ? Substituter(map).mutate(s) : s;
}
Region substitute(const Region& region, const Substitution& map) {
  return Substituter(map).mutate_region(region);
}

Expr replace_buffers(const Expr& e, const BufferMap& map) {
  return map.empty() ? e : BufferReplacer(map).mutate(e);
}
Stmt replace_buffers(const Stmt& s, const BufferMap& map) {
  return map.empty() ? s : BufferReplacer(map).mutate(s);
}

Stmt fresh_copy(const Stmt& s) {
  return Freshener().mutate(s);
}

void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& f) {
  f(s);
  switch (s->kind) {
    case StmtKind::For:
      return for_each_stmt(s.as<For>()->body, f);
    case StmtKind::Block:
      if (const Stmt& init = s.as<Block>()->f.init) for_each_stmt(init, f);
      return for_each_stmt(s.as<Block>()->f.body, f);
    case StmtKind::Let:
      return for_each_stmt(s.as<Let>()->body, f);
    case StmtKind::If:
      for_each_stmt(s.as<If>()->then_case, f);
      if (const Stmt& else_case = s.as<If>()->else_case) for_each_stmt(else_case, f);
      return;
    case StmtKind::While:
      return for_each_stmt(s.as<While>()->body, f);
    case StmtKind::Seq:
      for (const Stmt& child : s.as<Seq>()->stmts) for_each_stmt(child, f);
      return;
    case StmtKind::Store:
    case StmtKind::Eval:
    case StmtKind::Assert:
      return;
  }
}
void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& f) {
  ExprWalker(f).visit(e);
}
void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& f) {
  ExprWalker(f).visit(s);
}

namespace {

/// Looks for a variable in at most `budget` nodes, shared ones as often as they occur; what most expressions have fewer
/// of than a set of those seen is worth.
bool find_var(const Expr& e, const Var* variable, int& budget) {
  if (--budget < 0) return false;
  switch (e->kind) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
      return false;
    case ExprKind::Var:
      return e.get() == variable;
    case ExprKind::Unary:
      return find_var(e.as<Unary>()->a, variable, budget);
    case ExprKind::Binary:
      return find_var(e.as<Binary>()->a, variable, budget) || find_var(e.as<Binary>()->b, variable, budget);
    case ExprKind::Ramp:
      return find_var(e.as<Ramp>()->base, variable, budget) || find_var(e.as<Ramp>()->stride, variable, budget);
    case ExprKind::Broadcast:
      return find_var(e.as<Broadcast>()->value, variable, budget);
    default:
      budget = -1;
      return false;
  }
}

}  // namespace

bool uses_var(const Expr& e, const Var* variable) {
  int budget = 32;
  if (find_var(e, variable, budget)) return true;
  if (budget >= 0) return false;
  bool found = false;
  for_each_expr(e, [&](const Expr& sub) { found |= sub.get() == variable; });
  return found;
}

bool has_load(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& sub) { found |= sub.as<Load>() != nullptr; });
  return found;
}

bool reads_memory(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& part) { found |= part->kind == ExprKind::Load || part->kind == ExprKind::Call; });
  return found;
}

std::vector<VarRef> used_vars(const Expr& e) {
  std::vector<VarRef> vars;
  for_each_expr(e, [&](const Expr& sub) {
    if (const Var* var = sub.as<Var>()) vars.emplace_back(var);
  });
  return vars;
}

}  // namespace lathe
