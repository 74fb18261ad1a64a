#include <algorithm>
#include <numeric>

#include "ir/analysis/fold.h"
#include "ir/analysis/simplify_expr.h"

namespace lathe {
namespace {

bool is_i64(const Expr& e) {
  return e->dtype.element() == i64;
}

void append_conjuncts(const Expr& e, BinaryOp op, std::vector<Expr>& out) {
  auto* b = e.as<Binary>();
  if (b && b->op == op) {
    append_conjuncts(b->a, op, out);
    append_conjuncts(b->b, op, out);
  } else if (std::none_of(out.begin(), out.end(), [&](const Expr& seen) { return identical(seen, e); })) {
    out.push_back(e);
  }
}

/// The form that is >= 0 exactly where a canonical comparison `a < b` over i64 holds.
std::optional<Affine> less_form(const Expr& e) {
  auto* b = e.as<Binary>();
  if (!b || b->op != BinaryOp::lt || !is_i64(b->a)) return std::nullopt;
  Affine d = to_affine(b->b);
  if (!add_scaled(d, to_affine(b->a), -1) || __builtin_sub_overflow(d.constant, 1, &d.constant)) return std::nullopt;
  return d;
}

/// d < 0, or d == 0, as a comparison whose sides have only positive coefficients.
Expr canonical_comparison(BinaryOp op, Affine d) {
  std::int64_t g = 0;
  for (const AffineTerm& t : d.terms) g = t.coefficient == INT64_MIN ? 1 : std::gcd(g, t.coefficient);
  if (g > 1) {
    for (AffineTerm& t : d.terms) t.coefficient /= g;
    std::int64_t q = d.constant / g;
    d.constant = d.constant % g < 0 ? q - 1 : q;
  }
  Affine left = Affine::of(0, d.lanes), right = left;
  for (const AffineTerm& t : d.terms) {
    if (t.coefficient > 0)
      left.terms.push_back(t);
    else
      right.terms.push_back({t.atom, -t.coefficient});
  }
  if (left.terms.empty() && op != BinaryOp::lt) std::swap(left, right), d.constant = -d.constant;
  if (left.terms.empty() || (d.constant > 0 && !right.terms.empty()))
    left.constant = d.constant;
  else
    right.constant = -d.constant;
  Expr a = to_expr(left), b = to_expr(right);
  Expr x = scalar_of(a), y = scalar_of(b);
  if (d.lanes > 1 && x && y) return Broadcast::make(Binary::make(op, x, y), d.lanes);
  return Binary::make(op, a, b);
}

/// d < 0 of the lesser or greater of an index and a constant, as a condition on the index alone; null for other forms.
Expr on_index_alone(const Affine& d) {
  const Binary* limit = d.lanes == 1 && d.terms.size() == 1 ? d.terms[0].atom.as<Binary>() : nullptr;
  if (!limit || (limit->op != BinaryOp::min && limit->op != BinaryOp::max)) return nullptr;
  const std::int64_t *left = as_int(limit->a), *right = as_int(limit->b);
  const std::int64_t coefficient = d.terms[0].coefficient;
  if ((left != nullptr) == (right != nullptr) || std::abs(coefficient) != 1 || d.constant == INT64_MIN) return nullptr;
  const std::int64_t constant = left ? *left : *right;
  const Expr& index = left ? limit->b : limit->a;
  // Of limit < bound, or bound < limit, the constant decides one side, and else the index does.
  const bool below = coefficient > 0;
  const std::int64_t bound = below ? -d.constant : d.constant;
  const bool holds = below ? constant < bound : bound < constant;
  const bool either = (limit->op == BinaryOp::min) == below;
  if (holds == either) return IntImm::make(boolean, holds ? 1 : 0);
  const Expr side = IntImm::make(i64, bound);
  return below ? Binary::make(BinaryOp::lt, index, side) : Binary::make(BinaryOp::lt, side, index);
}

/// What intervals that hold two expressions say of a comparison, or of the lesser or greater of them; null for nothing.
Expr by_intervals(BinaryOp op, const Expr& a, const Interval& x, const Expr& b, const Interval& y) {
  bool less = x.max && y.min && *x.max < *y.min, more = x.min && y.max && *x.min > *y.max;
  bool at_most = x.max && y.min && *x.max <= *y.min, at_least = x.min && y.max && *x.min >= *y.max;
  int lanes = a->dtype.lanes;
  auto decide = [&](bool yes, bool no) { return yes ? truth(true, lanes) : no ? truth(false, lanes) : Expr(); };
  switch (op) {
    case BinaryOp::lt:
      return decide(less, at_least);
    case BinaryOp::le:
      return decide(at_most, more);
    case BinaryOp::gt:
      return decide(more, at_most);
    case BinaryOp::ge:
      return decide(at_least, less);
    case BinaryOp::eq:
      return decide(false, less || more);
    case BinaryOp::ne:
      return decide(less || more, false);
    case BinaryOp::min:
      return at_most ? a : at_least ? b : nullptr;
    case BinaryOp::max:
      return at_most ? b : at_least ? a : nullptr;
    default:
      return nullptr;
  }
}

/// The interval of an index, of which not more is known than the bounds that it is kept in where what is computed
/// within them may wrap.
Interval kept_in(const Bounds& bounds, const Expr& e) {
  if (!may_wrap(bounds, e)) return bounds.interval(e);
  const Binary* limit = e.as<Binary>();
  if (!limit || (limit->op != BinaryOp::min && limit->op != BinaryOp::max)) return Interval::everything();
  const Interval a = kept_in(bounds, limit->a), b = kept_in(bounds, limit->b);
  return limit->op == BinaryOp::min ? min(a, b) : max(a, b);
}

}  // namespace

Expr ExprSimplifier::compare_narrow(BinaryOp op, const Expr& a, const Expr& b) const {
  Interval x = bounds_.interval(a), y = bounds_.interval(b);
  auto unknown_u64 = [](const Expr& e, const Interval& i) {
    return e->dtype.is_unsigned() && e->dtype.bits == 64 && !(i.min && *i.min >= 0 && i.max);
  };
  if (unknown_u64(a, x) || unknown_u64(b, y)) return nullptr;
  return by_intervals(op, a, x, b, y);
}

Expr ExprSimplifier::compare_indices(const Expr& e, const Binary* b) {
  Affine x = simplify_affine(b->a), y = simplify_affine(b->b);
  int lanes = e->dtype.lanes;
  if (may_wrap(bounds_, x) || may_wrap(bounds_, y)) {
    Expr left = to_expr(x), right = to_expr(y);
    if (Expr folded = fold_binary(b->op, left, right)) return folded;
    if (Expr known = integer_identity(b->op, left, right)) return known;
    if (Expr known = by_intervals(b->op, left, kept_in(bounds_, left), right, kept_in(bounds_, right))) return known;
    if (Expr p = scalar_of(left), q = scalar_of(right); p && q && lanes > 1)
      return Broadcast::make(Binary::make(b->op, p, q), lanes);
    return identical(left, b->a) && identical(right, b->b) ? e : Binary::make(b->op, left, right);
  }
  BinaryOp op = b->op;
  if (op == BinaryOp::gt || op == BinaryOp::ge) {
    std::swap(x, y);
    op = op == BinaryOp::gt ? BinaryOp::lt : BinaryOp::le;
  }
  if (op == BinaryOp::le) {
    y.constant += 1;
    op = BinaryOp::lt;
  }
  Truth decided = op == BinaryOp::lt ? decide_less(bounds_, x, y, effort_) : decide_equal(bounds_, x, y, effort_);
  if (decided != Truth::unknown) return truth((decided == Truth::yes) == (op != BinaryOp::ne), lanes);
  if (!add_scaled(x, y, -1)) return e;
  x.lanes = lanes;
  if (const Expr simpler = op == BinaryOp::lt ? on_index_alone(x) : Expr()) return simplify(simpler);
  return canonical_comparison(op, std::move(x));
}

Expr ExprSimplifier::logic(const Expr& e, const Binary* b) {
  bool conjunction = b->op == BinaryOp::logical_and;
  Expr x = simplify(b->a), y = simplify(b->b);
  if (conjunction ? is_false(x) || is_true(y) : is_true(x) || is_false(y)) return x;
  if (conjunction ? is_false(y) || is_true(x) : is_true(y) || is_false(x)) return y;
  if (Expr p = scalar_of(x), q = scalar_of(y); p && q && e->dtype.lanes > 1)
    return widen(simplify(Binary::make(b->op, p, q)), e->dtype.lanes);
  std::vector<Expr> parts;
  append_conjuncts(x, b->op, parts);
  append_conjuncts(y, b->op, parts);
  // Of two bounds on the same form, a conjunction keeps the tighter and a disjunction the looser.
  constexpr size_t most_compared = 8;
  std::vector<std::optional<Affine>> forms;
  if (parts.size() <= most_compared)
    for (const Expr& part : parts) forms.push_back(less_form(part));
  for (size_t i = 0; i < forms.size(); ++i)
    for (size_t j = 0; j < forms.size(); ++j) {
      const std::optional<Affine>&a = forms[i], &b = forms[j];
      if (i == j || !a || !b || a->terms.size() != b->terms.size()) continue;
      Affine gap = *b;
      if (!add_scaled(gap, *a, -1) || !gap.is_constant() || gap.constant < 0) continue;
      size_t implied = conjunction ? j : i;  // part i says more than part j
      forms[implied].reset();
      parts[implied] = nullptr;
    }
  Expr result;
  for (const Expr& part : parts)
    if (part) result = result ? Binary::make(b->op, result, part) : part;
  return result;
}

}  // namespace lathe
