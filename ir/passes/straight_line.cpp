#include "ir/passes/straight_line.h"

#include <algorithm>

#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

class LoadCollector : public Visitor {
 public:
  explicit LoadCollector(StraightStatement& statement) : statement_(statement) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }

 protected:
  void visit_Load(const Load* node) override {
    if (node->buffer->space != space::registers) statement_.loaded.insert(storage_of(node->buffer));
    Visitor::visit_Load(node);
  }
  void visit_Call(const Call* node) override {
    statement_.opaque |= node->call_kind != CallKind::intrinsic;
    Visitor::visit_Call(node);
  }

 private:
  StraightStatement& statement_;
  NodeSet<const ExprNode*> seen_;
};

StraightStatement read_straight(const Stmt& s) {
  StraightStatement result;
  result.stmt = s;
  Stmt inner = s;
  while (const Let* let = inner.as<Let>()) {
    result.lets.push_back(let);
    inner = let->body;
  }
  result.store = inner.as<Store>();
  if (!result.store) return result;
  LoadCollector collector(result);
  collector.visit(result.store->value);
  result.value_loads = !result.loaded.empty();
  for (const Let* let : result.lets) collector.visit(let->value);
  return result;
}

class RunRewriter : public Mutator {
 public:
  RunRewriter(const std::function<Stmt(const std::vector<StraightStatement>&)>& rewrite, size_t most)
      : rewrite_(rewrite), most_(most) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }

 protected:
  Stmt mutate_Seq(const Stmt& s, const Seq* node) override {
    std::vector<Stmt> result;
    std::vector<StraightStatement> run;
    std::unordered_set<const BufferNode*> stored;
    bool changed = false;
    const auto flush = [&] {
      if (const Stmt rewritten = rewrite_(run)) {
        result.push_back(rewritten);
        changed = true;
      } else {
        for (const StraightStatement& one : run) result.push_back(one.stmt);
      }
      run.clear();
      stored.clear();
    };
    for (const Stmt& child : node->stmts) {
      StraightStatement statement = read_straight(child);
      const bool loads_stored = std::any_of(statement.loaded.begin(), statement.loaded.end(),
                                            [&](const BufferNode* buffer) { return stored.contains(buffer); });
      if (!statement.is_movable() || loads_stored || run.size() == most_) flush();
      if (statement.is_movable()) {
        stored.insert(storage_of(statement.store->buffer));
        run.push_back(std::move(statement));
      } else {
        result.push_back(mutate(child));
        changed |= result.back() != child;
      }
    }
    flush();
    return changed ? Seq::make(std::move(result)) : s;
  }
  Stmt mutate_Let(const Stmt& s, const Let*) override {
    if (const Stmt rewritten = alone(s)) return rewritten;
    // A chain is read once, however long.
    std::vector<const Let*> lets;
    Stmt inner = s;
    for (const Let* let = inner.as<Let>(); let; let = inner.as<Let>()) {
      lets.push_back(let);
      inner = let->body;
    }
    if (inner.as<Store>()) return s;
    Stmt changed = mutate(inner);
    if (changed == inner) return s;
    for (size_t i = lets.size(); i-- > 0;) changed = Let::make(lets[i]->variable, lets[i]->value, std::move(changed));
    return changed;
  }
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const Stmt rewritten = alone(s);
    return rewritten ? rewritten : Mutator::mutate_Store(s, node);
  }

 private:
  /// A statement that stands alone is a run of one.
  Stmt alone(const Stmt& s) {
    const StraightStatement statement = read_straight(s);
    return statement.is_movable() ? rewrite_({statement}) : nullptr;
  }

  const std::function<Stmt(const std::vector<StraightStatement>&)>& rewrite_;
  const size_t most_;
};

}  // namespace

bool StraightStatement::is_movable() const {
  return store && !opaque && store->buffer->space != space::registers;
}

Func rewrite_straight_runs(const Func& func, const std::function<Stmt(const std::vector<StraightStatement>&)>& rewrite,
                           size_t most) {
  // What is stored to one of two buffers that may be one memory may be read from the other.
  if (func->attrs.contains("may_alias")) return func;
  const Stmt body = RunRewriter(rewrite, most).mutate(func->body);
  return body == func->body ? func : with_body(func, body);
}

Stmt below_lets(const std::vector<std::pair<VarRef, Expr>>& bound, Stmt body) {
  for (size_t i = bound.size(); i-- > 0;) body = Let::make(bound[i].first, bound[i].second, std::move(body));
  return body;
}

}  // namespace lathe
