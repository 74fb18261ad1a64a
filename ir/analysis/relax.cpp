#include "ir/analysis/relax.h"

#include <algorithm>

#include "ir/analysis/float_interval.h"
#include "ir/analysis/simplify_expr.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

constexpr int most_steps = 200;

std::optional<Affine> constant_end(const Interval& interval, bool greatest) {
  const auto& end = greatest ? interval.max : interval.min;
  if (!end) return std::nullopt;
  return Affine::of(*end);
}

}  // namespace

bool Relaxation::is_inner(const Expr& e) const {
  switch (e->kind) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
      return false;
    case ExprKind::Var:
      return e == lane_variable() || bounds_.bound_since(outer_, e.as<Var>());
    case ExprKind::Unary:
      return is_inner(e.as<Unary>()->a);
    case ExprKind::Binary:
      return is_inner(e.as<Binary>()->a) || is_inner(e.as<Binary>()->b);
    case ExprKind::Select: {
      auto* s = e.as<Select>();
      return is_inner(s->condition) || is_inner(s->when_true) || is_inner(s->when_false);
    }
    case ExprKind::Cast:
      return is_inner(e.as<Cast>()->value);
    default:
      return true;  // vectors, and what depends on memory
  }
}

bool Relaxation::is_inner(const Affine& a) const {
  return std::any_of(a.terms.begin(), a.terms.end(), [&](const AffineTerm& t) { return is_inner(t.atom); });
}

SymbolicRange Relaxation::range(const Expr& index) {
  Affine a = to_affine(index);
  SymbolicRange result;
  if (!is_inner(a)) {
    a.lanes = 1;
    result.low = result.high = to_expr(a);
    return result;
  }
  if (may_wrap(bounds_, a)) return result;
  if (auto low = end(a, false)) result.low = to_expr(*low);
  if (auto high = end(std::move(a), true)) result.high = to_expr(*high);
  return result;
}

std::optional<Affine> Relaxation::end(Affine a, bool greatest) {
  const int lanes = a.lanes;
  while (++steps_ < most_steps) {
    // min, max and select distribute over the whole sum, which keeps what their arms share with it.
    const AffineTerm* newest = nullptr;
    int newest_position = -2;
    for (const AffineTerm& t : a.terms) {
      if (!is_inner(t.atom)) continue;
      auto* b = t.atom.as<Binary>();
      bool chooses = t.atom.as<Select>() || (b && (b->op == BinaryOp::min || b->op == BinaryOp::max));
      // Newest variables first: an older one's domain never depends on a newer one.
      int at = chooses ? 1 << 30 : t.atom.as<Var>() ? bounds_.position(t.atom.as<Var>()) : -1;
      if (at > newest_position) newest = &t, newest_position = at;
    }
    if (!newest) {
      a.lanes = 1;
      return a;
    }
    AffineTerm t = *newest;
    bool want_greatest = (t.coefficient > 0) == greatest;
    if (!add_term(a, t.atom, -t.coefficient)) return std::nullopt;
    if (auto* s = t.atom.as<Select>(); s && s->when_true->dtype.lanes == 1)
      return with_arms(a, s->when_true, s->when_false, t.coefficient, greatest,
                       greatest ? BinaryOp::max : BinaryOp::min);
    if (auto* b = t.atom.as<Binary>();
        b && (b->op == BinaryOp::min || b->op == BinaryOp::max) && t.atom->dtype.lanes == 1) {
      BinaryOp combine = (b->op == BinaryOp::min) == (t.coefficient > 0) ? BinaryOp::min : BinaryOp::max;
      return with_arms(a, b->a, b->b, t.coefficient, greatest, combine);
    }
    std::optional<Affine> end;
    if (auto* v = t.atom.as<Var>(); v && v != lane_variable().get()) {
      const Bounds::Entry* entry = bounds_.find(v);
      if (entry->value)
        end = to_affine(entry->value);
      else if (entry->domain)
        end = want_greatest ? entry->domain->high : entry->domain->low;
      else
        end = constant_end(entry->interval, want_greatest);
    } else {
      end = atom_end(t.atom, lanes, want_greatest);
    }
    if (!end || !add_scaled(a, *end, t.coefficient)) return std::nullopt;
    a.lanes = lanes;
  }
  return std::nullopt;
}

std::optional<Affine> Relaxation::with_arms(const Affine& rest, const Expr& a, const Expr& b, std::int64_t coefficient,
                                            bool greatest, BinaryOp combine) {
  Affine left = rest, right = rest;
  if (!add_scaled(left, to_affine(a), coefficient) || !add_scaled(right, to_affine(b), coefficient))
    return std::nullopt;
  auto x = end(std::move(left), greatest), y = end(std::move(right), greatest);
  // Of a minimum either arm alone is an upper bound, of a maximum a lower one; the tighter end needs both.
  bool either = (combine == BinaryOp::min) == greatest;
  if (!x || !y) return either ? (x ? x : y) : std::nullopt;
  Affine gap = *y;
  if (add_scaled(gap, *x, -1)) {
    if (prove_nonnegative(bounds_, gap, quick_effort)) return combine == BinaryOp::min ? x : y;
    Affine reverse = Affine::of(0);
    if (add_scaled(reverse, gap, -1) && prove_nonnegative(bounds_, reverse, quick_effort))
      return combine == BinaryOp::min ? y : x;
  }
  return Affine::atom(Binary::make(combine, to_expr(*x), to_expr(*y)));
}

std::optional<Affine> Relaxation::atom_end(const Expr& atom, int lanes, bool greatest) {
  if (atom == lane_variable()) return Affine::of(greatest ? lanes - 1 : 0);
  auto known = constant_end(bounds_.interval(atom), greatest);
  if (auto* c = atom.as<Cast>(); c && c->value->dtype.is_float()) {
    auto forms = integer_forms(*c, bounds_);
    if (!forms) return known;
    auto bound = end(greatest ? forms->high : forms->low, greatest);
    return bound ? bound : known;
  }
  auto* b = atom.as<Binary>();
  if (!b) return known;
  if (b->op == BinaryOp::mul && atom->dtype == i64) {
    // One inner factor between others that are not negative.
    std::vector<Expr> factors, outer;
    append_factors(atom, factors);
    Expr inner;
    for (const Expr& f : factors) {
      if (!is_inner(f))
        outer.push_back(f);
      else if (inner)
        return known;
      else
        inner = f;
    }
    if (outer.empty()) return known;
    Expr scale = product(std::move(outer));
    Interval sign = bounds_.interval(scale);
    if (!sign.min || *sign.min < 0) return known;
    Affine single = Affine::atom(inner);
    single.lanes = lanes;
    auto bound = end(single, greatest);
    if (!bound || !multiply(*bound, to_affine(scale))) return known;
    return bound;
  }
  if (is_inner(b->b)) return known;
  Expr divisor = b->b;
  if (divisor->dtype.lanes > 1) {
    Affine scalar = to_affine(divisor);
    scalar.lanes = 1;
    if (is_inner(scalar)) return known;
    divisor = to_expr(scalar);
  }
  Interval positive = bounds_.interval(divisor);
  if (!positive.min || *positive.min < 1) return known;
  const std::optional<std::int64_t> constant = positive.as_point();
  if (b->op == BinaryOp::floor_div) {
    auto bound = end(to_affine(b->a), greatest);
    if (!bound) return known;
    if (constant) return divide(bounds_, *bound, *constant, quick_effort);
    return Affine::atom(Binary::make(BinaryOp::floor_div, to_expr(*bound), divisor));
  }
  if (b->op == BinaryOp::floor_mod) {
    // Within one block of the divisor the remainder grows with the dividend.
    auto low = end(to_affine(b->a), false), high = end(to_affine(b->a), true);
    if (low && high && constant) {
      Affine first = divide(bounds_, *low, *constant, quick_effort),
             last = divide(bounds_, *high, *constant, quick_effort);
      if (equal(first, last)) return remainder(bounds_, greatest ? *high : *low, *constant, quick_effort);
    }
    if (!greatest) return Affine::of(0);
    if (constant) return known ? known : Affine::of(*constant - 1);
    Affine last = to_affine(divisor);
    last.constant -= 1;
    return last;
  }
  return known;
}

}  // namespace lathe
