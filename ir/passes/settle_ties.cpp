#include "ir/passes/settle_ties.h"

#include <algorithm>
#include <cmath>

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

void append_operands(BinaryOp op, const Expr& e, std::vector<Expr>& operands) {
  const Binary* node = e.as<Binary>();
  if (!node || node->op != op) return operands.push_back(e);
  append_operands(op, node->a, operands);
  append_operands(op, node->b, operands);
}

std::vector<Expr> operands_of(BinaryOp op, const Expr& e) {
  std::vector<Expr> operands;
  append_operands(op, e, operands);
  return operands;
}

/// A reducer of a value and its place: of two operands the right one where it wins, or where they tie and its place is
/// the lesser.
class Ties {
 public:
  Ties(const Reducer& reducer, size_t place) : lhs_place_(reducer.lhs[place]), rhs_place_(reducer.rhs[place]) {
    const size_t value = 1 - place;
    lhs_ = reducer.lhs[value], rhs_ = reducer.rhs[value];
    const Expr& identity = reducer.identities[value];
    const FloatImm* number = identity.as<FloatImm>();
    // Equal to it is only it itself.
    known_ = identity.as<IntImm>() || (number && std::isinf(number->value));
    settled = reducer;
    for (size_t k = 0; k < reducer.results.size(); ++k) {
      const Select* chosen = reducer.results[k].as<Select>();
      const Expr lhs = reducer.lhs[k], rhs = reducer.rhs[k];
      known_ = known_ && chosen && chosen->when_true == rhs && chosen->when_false == lhs;
      if (known_) settled.results[k] = Select::make(wins(chosen->condition), rhs, lhs);
    }
  }

  bool found() const { return known_; }
  Reducer settled;  ///< without the comparison of places

 private:
  Expr wins(const Expr& condition) {
    Expr rest;
    int ties = 0;
    for (const Expr& way : operands_of(BinaryOp::logical_or, condition)) {
      const std::vector<Expr> parts = operands_of(BinaryOp::logical_and, way);
      if (std::none_of(parts.begin(), parts.end(), [&](const Expr& e) { return compares_places(e); })) {
        known_ &= !uses_var(way, lhs_place_.as<Var>()) && !uses_var(way, rhs_place_.as<Var>());
        rest = rest ? logical_or(rest, way) : way;
      } else {
        ++ties;
        known_ &= std::any_of(parts.begin(), parts.end(), [&](const Expr& e) { return ties_are_equal(e); });
      }
    }
    known_ &= ties == 1 && rest;
    return rest ? rest : condition;
  }

  bool compares_places(const Expr& e) const {
    const Binary* node = e.as<Binary>();
    return node && ((node->op == BinaryOp::lt && node->a == rhs_place_ && node->b == lhs_place_) ||
                    (node->op == BinaryOp::gt && node->a == lhs_place_ && node->b == rhs_place_));
  }

  /// Does a value for which `e` holds beside the identity, which is no NaN, equal that?
  bool ties_are_equal(const Expr& e) const {
    const Binary* node = e.as<Binary>();
    const Unary* unary = e.as<Unary>();
    if (unary) return unary->op == UnaryOp::is_nan && unary->a == lhs_;
    if (!node) return false;
    if (node->op == BinaryOp::eq) return (node->a == lhs_ && node->b == rhs_) || (node->a == rhs_ && node->b == lhs_);
    if (node->op == BinaryOp::logical_or) return ties_are_equal(node->a) && ties_are_equal(node->b);
    if (node->op == BinaryOp::logical_and) return ties_are_equal(node->a) || ties_are_equal(node->b);
    return false;
  }

  Expr lhs_, rhs_;
  const Expr lhs_place_, rhs_place_;
  bool known_ = false;
};

/// Does the term grow from each run of the innermost statement to the next?
bool grows(const Expr& term, const std::vector<const For*>& loops) {
  const Affine form = to_affine(term);
  std::int64_t span = 0;
  for (size_t i = loops.size(); i-- > 0;) {
    const std::int64_t step = form.coefficient(loops[i]->variable);
    const std::int64_t* extent = as_int(loops[i]->extent);
    if (step <= span || (i > 0 && !extent)) return false;
    std::int64_t run = 0;
    if (i > 0 && (__builtin_mul_overflow(step, *extent - 1, &run) || __builtin_add_overflow(span, run, &span)))
      return false;
  }
  return std::all_of(form.terms.begin(), form.terms.end(), [](const AffineTerm& t) { return t.atom.as<Var>(); });
}

/// Does the condition hold for every point that has an init: where the space bindings lie in their domains?
bool holds_where_points_are(const Expr& condition, const Block::Fields& f, const Bounds& bounds) {
  if (proves(bounds, condition)) return true;
  Bounds inside = bounds;
  for (size_t i = 0; i < f.iters.size(); ++i) {
    if (f.iters[i].kind != IterKind::space) continue;
    const Range& domain = f.iters[i].domain;
    inside.assume(ge(f.bindings[i], domain.min));
    inside.assume(lt(f.bindings[i], domain.min + domain.extent));
  }
  return proves(inside, condition);
}

}  // namespace

std::optional<Block::Fields> settle_ties(const Block& block, const std::vector<const For*>& loops,
                                         const Bounds& bounds) {
  const Block::Fields& f = block.f;
  if (!f.reducer || !f.init || f.reducer->results.size() != 2) return std::nullopt;
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || !equal(f.init, make_init(*f.reducer, parts->outputs))) return std::nullopt;

  // The loops that drive reduce iters, which run one after another and drive no space iter.
  std::vector<const For*> drivers;
  Substitution start, bindings, first;
  for (const For* loop : loops) {
    bool reduces = false, places = false;
    for (size_t i = 0; loop && i < f.iters.size(); ++i) {
      if (!uses_var(f.bindings[i], loop->variable.get())) continue;
      (f.iters[i].kind == IterKind::space ? places : reduces) = true;
    }
    if (!reduces) continue;
    if (places || loop->for_kind != ForKind::serial || !proves(bounds, ge(loop->extent, index(1)))) return std::nullopt;
    drivers.push_back(loop);
    start[loop->variable.get()] = loop->min;
  }
  if (drivers.empty()) return std::nullopt;
  for (size_t i = 0; i < f.iters.size(); ++i) {
    const Iter& iter = f.iters[i];
    bindings[iter.variable.get()] = f.bindings[i];
    if (iter.kind == IterKind::space) continue;
    const Expr value = simplify(substitute(f.bindings[i], start), bounds);
    if (!as_int(value)) return std::nullopt;
    first[iter.variable.get()] = value;
  }
  if (f.predicate && !holds_where_points_are(substitute(substitute(f.predicate, bindings), start), f, bounds))
    return std::nullopt;

  Substitution lets;
  for (const Stmt& s : parts->lets) lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
  const Reducer& reducer = *f.reducer;
  for (size_t p = 0; p < reducer.results.size(); ++p) {
    const Expr term = substitute(parts->terms[p], lets);
    if (!(term->dtype == i64) || !grows(simplify(substitute(term, bindings), bounds), drivers)) continue;
    const Ties ties(reducer, p);
    if (!ties.found()) continue;
    Block::Fields result = f;
    std::vector<Stmt> stores;
    for (size_t k = 0; k < parts->outputs.size(); ++k) {
      const Expr begin = k == p ? substitute(term, first) : reducer.identities[k];
      stores.push_back(Store::make(parts->outputs[k].buffer, parts->outputs[k].indices, begin));
    }
    result.init = Seq::make(std::move(stores));
    result.body = make_update(ties.settled, parts->outputs, parts->terms, parts->lets);
    run_in_order(result);
    return result;
  }
  return std::nullopt;
}

}  // namespace lathe
