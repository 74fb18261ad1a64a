#include "ir/passes/delay_stores.h"

#include <algorithm>

#include "ir/passes/straight_line.h"

namespace lathe {
namespace {

/// As many results wait in registers.
constexpr size_t most_together = 4;

/// The stores of a run behind its loads; null when there is nothing to gain.
Stmt with_late_stores(const std::vector<StraightStatement>& run) {
  const bool loads = std::any_of(run.begin(), run.end(), [](const auto& one) { return one.value_loads; });
  if (run.size() < 2 || !loads) return nullptr;
  std::vector<std::pair<VarRef, Expr>> bound;
  std::vector<Stmt> stores;
  for (const StraightStatement& one : run) {
    for (const Let* let : one.lets) bound.emplace_back(let->variable, let->value);
    Expr value = one.store->value;
    if (one.value_loads) {
      const VarRef variable = Var::make("value", value->dtype);
      bound.emplace_back(variable, value);
      value = variable;
    }
    stores.push_back(Store::make(one.store->buffer, one.store->indices, value, one.store->mask));
  }
  return below_lets(bound, Seq::make(std::move(stores)));
}

}  // namespace

Func delay_stores(const Func& func) {
  return rewrite_straight_runs(func, with_late_stores, most_together);
}

}  // namespace lathe
