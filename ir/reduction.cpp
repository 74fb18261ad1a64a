#include "ir/reduction.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {

std::vector<Expr> combine(const Reducer& reducer, const std::vector<Expr>& lhs, const std::vector<Expr>& rhs) {
  Substitution map;
  for (size_t i = 0; i < reducer.lhs.size(); ++i) {
    map[reducer.lhs[i].get()] = lhs[i];
    map[reducer.rhs[i].get()] = rhs[i];
  }
  std::vector<Expr> results;
  results.reserve(reducer.results.size());
  for (const Expr& result : reducer.results) results.push_back(substitute(result, map));
  return results;
}

Reducer with_new_variables(const Reducer& reducer) {
  Reducer copy = reducer;
  Substitution map;
  const auto renew = [&](std::vector<VarRef>& variables) {
    for (VarRef& v : variables) {
      const VarRef old = v;
      v = Var::make(old->name, old->dtype);
      map[old.get()] = v;
    }
  };
  renew(copy.lhs);
  renew(copy.rhs);
  for (Expr& e : copy.results) e = substitute(e, map);
  return copy;
}

Stmt make_update(const Reducer& reducer, const std::vector<ReductionOutput>& outputs, const std::vector<Expr>& terms,
                 const std::vector<Stmt>& lets) {
  const size_t n = reducer.results.size();
  LATHE_CHECK(outputs.size() == n && terms.size() == n, "make_update");
  std::vector<VarRef> lhs, rhs;
  std::vector<Expr> lhs_values, rhs_values;
  for (size_t k = 0; k < n; ++k) {
    lhs.push_back(Var::make("l" + std::to_string(k), reducer.lhs[k]->dtype));
    rhs.push_back(Var::make("r" + std::to_string(k), reducer.rhs[k]->dtype));
    lhs_values.emplace_back(lhs[k]);
    rhs_values.emplace_back(rhs[k]);
  }
  const std::vector<Expr> results = combine(reducer, lhs_values, rhs_values);
  std::vector<Stmt> stores;
  stores.reserve(n);
  for (size_t k = 0; k < n; ++k) stores.push_back(Store::make(outputs[k].buffer, outputs[k].indices, results[k]));
  Stmt body = Seq::make(std::move(stores));
  for (size_t k = n; k-- > 0;) body = Let::make(rhs[k], terms[k], body);
  for (size_t k = lets.size(); k-- > 0;) {
    const Let* let = lets[k].as<Let>();
    body = Let::make(let->variable, let->value, body);
  }
  for (size_t k = n; k-- > 0;) body = Let::make(lhs[k], load(outputs[k].buffer, outputs[k].indices), body);
  return body;
}

Stmt make_init(const Reducer& reducer, const std::vector<ReductionOutput>& outputs) {
  std::vector<Stmt> stores;
  stores.reserve(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    stores.push_back(Store::make(outputs[k].buffer, outputs[k].indices, reducer.identities[k]));
  }
  return Seq::make(std::move(stores));
}

std::optional<ReductionParts> match_update(const Block& block) {
  if (!block.f.reducer) return std::nullopt;
  const Reducer& reducer = *block.f.reducer;
  const size_t n = reducer.results.size();
  std::vector<const Let*> lets;
  std::vector<Stmt> let_stmts;
  Stmt s = block.f.body;
  while (const Let* let = s.as<Let>()) {
    lets.push_back(let);
    let_stmts.push_back(s);
    s = let->body;
  }
  std::vector<Stmt> stores;
  if (const Seq* seq = s.as<Seq>()) {
    stores = seq->stmts;
  } else {
    stores = {s};
  }
  if (stores.size() != n || lets.size() < 2 * n) return std::nullopt;

  ReductionParts parts;
  std::vector<Expr> lhs_values, rhs_values;
  for (size_t k = 0; k < n; ++k) {
    const Store* store = stores[k].as<Store>();
    const Load* old = lets[k]->value.as<Load>();
    if (!store || store->mask || !old || old->mask || old->buffer != store->buffer) return std::nullopt;
    if (old->indices.size() != store->indices.size()) return std::nullopt;
    for (size_t d = 0; d < old->indices.size(); ++d) {
      if (!equal(old->indices[d], store->indices[d])) return std::nullopt;
    }
    parts.outputs.push_back({store->buffer, store->indices});
    const Let* term = lets[lets.size() - n + k];
    parts.terms.push_back(term->value);
    lhs_values.emplace_back(lets[k]->variable);
    rhs_values.emplace_back(term->variable);
  }
  for (size_t k = n; k + n < lets.size(); ++k) parts.lets.push_back(let_stmts[k]);
  const std::vector<Expr> results = combine(reducer, lhs_values, rhs_values);
  for (size_t k = 0; k < n; ++k) {
    if (!equal(results[k], stores[k].as<Store>()->value)) return std::nullopt;
  }
  return parts;
}

void run_in_order(Block::Fields& f) {
  for (Iter& iter : f.iters) {
    if (iter.kind != IterKind::space) iter.kind = IterKind::ordered;
  }
  for (const Region& write : f.writes) {
    const bool listed =
        std::any_of(f.reads.begin(), f.reads.end(), [&](const Region& r) { return r.buffer == write.buffer; });
    if (!listed) f.reads.push_back(write);
  }
  f.reducer.reset();
}

Reducer simple_reducer(BinaryOp op, DType dtype) {
  Reducer reducer;
  const VarRef lhs = Var::make("lhs", dtype), rhs = Var::make("rhs", dtype);
  reducer.lhs = {lhs};
  reducer.rhs = {rhs};
  reducer.results = {Binary::make(op, lhs, rhs)};
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Expr identity;
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::logical_or:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
      identity = constant(dtype, 0);
      break;
    case BinaryOp::mul:
    case BinaryOp::logical_and:
      identity = constant(dtype, 1);
      break;
    case BinaryOp::bit_and:
      identity = constant(dtype, -1);
      break;
    case BinaryOp::min:
      identity = dtype.is_float() ? constant(dtype, infinity) : IntImm::make(dtype, integer_max(dtype));
      break;
    case BinaryOp::max:
      identity = dtype.is_float() ? constant(dtype, -infinity) : IntImm::make(dtype, integer_min(dtype));
      break;
    default:
      throw InputError(Mistake::value, "no reducer for " + std::string(to_string(op)));
  }
  reducer.identities = {identity};
  return reducer;
}

Reducer extreme_of_numbers(BinaryOp op, DType dtype) {
  LATHE_CHECK(dtype.is_float() && (op == BinaryOp::min || op == BinaryOp::max), "extreme_of_numbers");
  Reducer reducer = simple_reducer(op, dtype);
  const Expr lhs = reducer.lhs[0], rhs = reducer.rhs[0];
  reducer.results = {Select::make(op == BinaryOp::max ? lt(lhs, rhs) : lt(rhs, lhs), rhs, lhs)};
  return reducer;
}

bool passes_over_nan(const Reducer& reducer) {
  return reducer.results.size() == 1 && reducer.results[0].as<Select>() && simple_op(reducer);
}

std::optional<BinaryOp> simple_op(const Reducer& reducer) {
  if (reducer.results.size() != 1) return std::nullopt;
  const Expr lhs = reducer.lhs[0], rhs = reducer.rhs[0];
  if (const Binary* binary = reducer.results[0].as<Binary>())
    return binary->a == lhs && binary->b == rhs ? std::optional(binary->op) : std::nullopt;
  const Select* chosen = reducer.results[0].as<Select>();
  const Binary* smaller = chosen ? chosen->condition.as<Binary>() : nullptr;
  if (!smaller || smaller->op != BinaryOp::lt || chosen->when_true != rhs || chosen->when_false != lhs)
    return std::nullopt;
  if (smaller->a == lhs && smaller->b == rhs) return BinaryOp::max;
  if (smaller->a == rhs && smaller->b == lhs) return BinaryOp::min;
  return std::nullopt;
}

}  // namespace lathe
