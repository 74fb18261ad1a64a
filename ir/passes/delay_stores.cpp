#include "ir/passes/delay_stores.h"

#include <algorithm>

#include "ir/passes/straight_line.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// As many results wait in registers.
constexpr size_t most_together = 4;

Stmt together(const std::vector<StraightStatement>& group) {
  std::vector<std::pair<VarRef, Expr>> bound;
  std::vector<Stmt> stores;
  for (const StraightStatement& one : group) {
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

class StoreDelayer : public Mutator {
 public:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }

 protected:
  Stmt mutate_Seq(const Stmt& s, const Seq* node) override {
    std::vector<Stmt> result;
    StraightRun run;
    bool changed = false;
    const auto flush = [&] {
      const std::vector<StraightStatement>& group = run.statements();
      if (group.size() > 1 &&
          std::any_of(group.begin(), group.end(), [](const auto& one) { return one.value_loads; })) {
        result.push_back(together(group));
        changed = true;
      } else {
        for (const StraightStatement& one : group) result.push_back(one.stmt);
      }
      run.clear();
    };
    for (const Stmt& child : node->stmts) {
      StraightStatement statement = read_straight(child);
      if (!run.takes(statement) || run.statements().size() == most_together) flush();
      if (run.takes(statement)) {
        run.add(std::move(statement));
      } else {
        result.push_back(mutate(child));
        changed |= result.back() != child;
      }
    }
    flush();
    return changed ? Seq::make(std::move(result)) : s;
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
