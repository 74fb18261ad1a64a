#pragma once
#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/func.h"
#include "ir/node_map.h"

namespace lathe {

/// Walks an expression or a statement. Override the kinds that matter; the defaults visit children. An expression that
/// is shared is visited once per path: a visitor that must stay linear on shared expressions keeps its own set of seen
/// nodes. The buffer of each access passes through visit_buffer, before its indices; regions and allocations do not.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void visit(const Expr& e);
  virtual void visit(const Stmt& s);

 protected:
#define LATHE_VISIT(name) virtual void visit_##name(const name* node);
  LATHE_EXPR_NODES(LATHE_VISIT)
  LATHE_STMT_NODES(LATHE_VISIT)
#undef LATHE_VISIT
  virtual void visit_buffer(const Buffer&) {}
};

/// Rebuilds what changes and shares what does not: a node whose children come back identical is returned itself.
/// Results of expressions are remembered by node while one top-level `mutate` runs, so shared expressions stay shared;
/// a mutator whose answer depends on context (scoped bindings) calls forget() when the context changes. Buffers pass
/// through mutate_buffer, at accesses, regions and allocations alike.
class Mutator {
 public:
  virtual ~Mutator() = default;
  virtual Expr mutate(const Expr& e);
  virtual Stmt mutate(const Stmt& s);

 protected:
#define LATHE_MUTATE(name) virtual Expr mutate_##name(const Expr& e, const name* node);
  LATHE_EXPR_NODES(LATHE_MUTATE)
#undef LATHE_MUTATE
#define LATHE_MUTATE(name) virtual Stmt mutate_##name(const Stmt& s, const name* node);
  LATHE_STMT_NODES(LATHE_MUTATE)
#undef LATHE_MUTATE
  virtual Buffer mutate_buffer(const Buffer& buffer) { return buffer; }
  Region mutate_region(const Region& region);
  std::vector<Expr> mutate_all(const std::vector<Expr>& exprs, bool* changed);
  void forget() { memo_.clear(); }

 private:
  NodeMap<Expr, Expr> memo_;
};

/// Variables to expressions.
using Substitution = std::unordered_map<const Var*, Expr>;

Expr substitute(const Expr& e, const Substitution& map);
/// Also inside regions, domains and bindings. Variables bound inside `s` are not renamed: the map's values must not use
/// them.
Stmt substitute(const Stmt& s, const Substitution& map);
Region substitute(const Region& region, const Substitution& map);

/// Buffers to buffers of the same rank, wherever they occur.
using BufferMap = std::unordered_map<const BufferNode*, Buffer>;
Expr replace_buffers(const Expr& e, const BufferMap& map);
Stmt replace_buffers(const Stmt& s, const BufferMap& map);

/// The statement with every variable that it binds (loops, iters, lets, reducers) and every buffer that it allocates
/// made anew under the same name, so that a copy can stand beside the original.
Stmt fresh_copy(const Stmt& s);

/// Does `e` use `variable`?
bool uses_var(const Expr& e, const Var* variable);
bool has_load(const Expr& e);
/// Could it come out otherwise at another time, as it has a Load or a Call?
bool reads_memory(const Expr& e);
/// Every variable that `e` uses, each once, in order of first use.
std::vector<VarRef> used_vars(const Expr& e);

/// Calls `f` on every statement, or on every expression once, in program order.
void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& f);
void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& f);
/// Every expression of every statement below `s`, regions and domains excluded; subexpressions are visited too.
void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& f);

}  // namespace lathe
