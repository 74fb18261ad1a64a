#include "ir/passes/loop_cuts.h"

#include <algorithm>

#include "ir/conjuncts.h"

namespace lathe {

void CutFinder::visit(const Stmt& s) {
  size_t before = cuts.size();
  Visitor::visit(s);
  if (cuts.size() != before) holders.insert(s.get());
}

void CutFinder::visit(const Expr& e) {
  if (e->kind == ExprKind::Var || e->kind == ExprKind::IntImm || e->kind == ExprKind::FloatImm) return;
  Visitor::visit(e);
}

void CutFinder::visit_For(const For* node) {
  const bool in_tile = whole_tile_ && node->for_kind == ForKind::serial && is_int(node->min, 0) && as_int(node->extent);
  if (is_point_loop(*node) || in_tile) {
    points_.push_back(loop_range(*node));
    visit(node->body);
    points_.pop_back();
  } else {
    hidden_.insert(node->variable.get());
    visit(node->body);
  }
}

void CutFinder::visit_Let(const Let* node) {
  hidden_.insert(node->variable.get());
  Visitor::visit_Let(node);
}

void CutFinder::visit_If(const If* node) {
  consider(node->condition);
  Visitor::visit_If(node);
}

void CutFinder::visit_Load(const Load* node) {
  if (of_loads_) consider(node->mask);
  Visitor::visit_Load(node);
}

void CutFinder::visit_Store(const Store* node) {
  consider(node->mask);
  Visitor::visit_Store(node);
}

void CutFinder::consider(const Expr& condition) {
  for (const Expr& conjunct : conjuncts_of(condition)) {
    if (std::optional<Cut> cut = cut_of(conjunct)) {
      cuts.push_back(std::move(*cut));
    } else {
      others |= uses_var(conjunct, variable_.get());
    }
  }
}

std::optional<Cut> CutFinder::cut_of(const Expr& conjunct) const {
  const Binary* b = conjunct.as<Binary>();
  if (!b || b->a->dtype != i64) return std::nullopt;
  Affine distance;
  bool fits = true;
  switch (b->op) {
    case BinaryOp::lt:
    case BinaryOp::le:
      distance = to_affine(b->b), fits = add_scaled(distance, to_affine(b->a), -1);
      break;
    case BinaryOp::gt:
    case BinaryOp::ge:
      distance = to_affine(b->a), fits = add_scaled(distance, to_affine(b->b), -1);
      break;
    default:
      return std::nullopt;
  }
  if (b->op == BinaryOp::lt || b->op == BinaryOp::gt) distance.constant -= 1;
  std::int64_t c = fits ? distance.coefficient(variable_) : 0;
  if (c == 0) return std::nullopt;
  const std::optional<Affine> least = rest_of(extreme(distance, points_, false, bounds_), c);
  if (!least) return std::nullopt;
  Cut cut{conjunct, {}, {}, std::abs(c), {}};
  (c < 0 ? cut.high_numerator : cut.low_numerator) = *least;
  if (c < 0) cut.most_numerator = rest_of(extreme(distance, points_, true, bounds_), c);
  return cut;
}

std::optional<Affine> CutFinder::rest_of(std::optional<Affine> distance, std::int64_t c) const {
  if (!distance || distance->coefficient(variable_) != c || !add_term(*distance, variable_, -c)) return std::nullopt;
  for (const AffineTerm& term : distance->terms) {
    bool bad = false;
    for_each_expr(term.atom, [&](const Expr& e) {
      const Var* var = e.as<Var>();
      bad |= e.as<Load>() || (var && (var == variable_.get() || hidden_.count(var)));
    });
    if (bad) return std::nullopt;
  }
  return distance;
}

}  // namespace lathe
