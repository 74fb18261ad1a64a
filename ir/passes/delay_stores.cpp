#include "ir/passes/delay_stores.h"

#include <algorithm>
#include <unordered_set>

#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// As many results wait in registers.
constexpr size_t most_together = 4;

/// A Store below nothing but Lets.
struct Statement {
  std::vector<const Let*> lets;
  const Store* store = nullptr;
  std::unordered_set<const BufferNode*> loaded;  ///< memory that the Lets and the stored value read
  bool value_loads = false;
  bool opaque = false;  ///< calls what may read anything
};

class LoadCollector : public Visitor {
 public:
  explicit LoadCollector(Statement& statement) : statement_(statement) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get()).second) Visitor::visit(e);
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
  Statement& statement_;
  std::unordered_set<const ExprNode*> seen_;
};

Statement read_statement(const Stmt& s) {
  Statement result;
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

class StoreDelayer : public Mutator {
 public:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }

 protected:
  Stmt mutate_Seq(const Stmt& s, const Seq* node) override {
    std::vector<Stmt> result, originals;
    std::vector<Statement> group;
    std::unordered_set<const BufferNode*> stored;
    bool changed = false;
    const auto flush = [&] {
      const bool worth = std::any_of(group.begin(), group.end(), [](const Statement& one) { return one.value_loads; });
      if (group.size() > 1 && worth) {
        result.push_back(together(group));
        changed = true;
      } else {
        result.insert(result.end(), originals.begin(), originals.end());
      }
      group.clear(), originals.clear(), stored.clear();
    };
    for (const Stmt& child : node->stmts) {
      Statement statement = read_statement(child);
      const bool movable = statement.store && !statement.opaque && statement.store->buffer->space != space::registers;
      if (!movable) {
        flush();
        result.push_back(mutate(child));
        changed |= result.back() != child;
        continue;
      }
      const bool reads_stored = std::any_of(statement.loaded.begin(), statement.loaded.end(),
                                            [&](const BufferNode* buffer) { return stored.contains(buffer); });
      if (reads_stored || group.size() == most_together) flush();
      stored.insert(storage_of(statement.store->buffer));
      group.push_back(std::move(statement));
      originals.push_back(child);
    }
    flush();
    return changed ? Seq::make(std::move(result)) : s;
  }

 private:
  static Stmt together(const std::vector<Statement>& group) {
    std::vector<std::pair<VarRef, Expr>> bound;
    std::vector<Stmt> stores;
    for (const Statement& one : group) {
      for (const Let* let : one.lets) bound.emplace_back(let->variable, let->value);
      Expr value = one.store->value;
      if (one.value_loads) {
        const VarRef variable = Var::make("value", value->dtype);
        bound.emplace_back(variable, value);
        value = variable;
      }
      stores.push_back(Store::make(one.store->buffer, one.store->indices, value, one.store->mask));
    }
    Stmt result = Seq::make(std::move(stores));
    for (size_t i = bound.size(); i-- > 0;) result = Let::make(bound[i].first, bound[i].second, result);
    return result;
  }
};

}  // namespace

Func delay_stores(const Func& func) {
  // What is stored to one of two buffers that may be one memory may be read from the other.
  if (func->attrs.contains("may_alias")) return func;
  const Stmt body = StoreDelayer().mutate(func->body);
  return body == func->body ? func : with_body(func, body);
}

}  // namespace lathe
