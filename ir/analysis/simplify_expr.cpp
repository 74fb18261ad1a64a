#include "ir/analysis/simplify_expr.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/analysis/float_interval.h"
#include "ir/analysis/fold.h"
#include "ir/analysis/narrow_cast.h"
#include "ir/analysis/simplify.h"

namespace lathe {
namespace {

bool is_i64(const Expr& e) {
  return e->dtype.element() == i64;
}

bool is_constant(const Expr& e) {
  return e->kind == ExprKind::FloatImm || e->kind == ExprKind::IntImm;
}

/// `f` of both arms, where `e` is one of two constants, a truth that was made a number among them, and `f` folds each;
/// null where not.
template <class F>
Expr fold_arms(const Expr& e, const F& f) {
  Expr condition, when_true, when_false;
  const Cast* truth = e.as<Cast>();
  if (const Select* choice = e.as<Select>()) {
    condition = choice->condition, when_true = choice->when_true, when_false = choice->when_false;
  } else if (truth && truth->value->dtype.is_bool() && e->dtype.is_float()) {
    condition = truth->value, when_true = constant(e->dtype, 1.0), when_false = constant(e->dtype, 0.0);
  }
  if (!condition || !is_constant(when_true) || !is_constant(when_false)) return nullptr;
  const Expr x = f(when_true), y = f(when_false);
  return x && y ? Select::make(condition, x, y) : nullptr;
}

}  // namespace

Expr ExprSimplifier::simplify(const Expr& e) {
  if (!e || e->kind == ExprKind::IntImm || e->kind == ExprKind::FloatImm) return e;
  // Small trees of places, nearly all there are, never pay for the memo; shared graphs must not be walked once per
  // path. A value that is used twice stays one, which is computed once and rounds once.
  constexpr int free_visits = 24;
  const bool shared = e->kind != ExprKind::Var && (++visited_ > free_visits || !is_i64(e)) &&
                      e->references.load(std::memory_order_relaxed) > 1;
  if (shared) {
    auto found = memo_.find(e);
    if (found != memo_.end()) return found->second;
  }
  Expr result = is_i64(e) ? to_expr(simplify_affine(e)) : simplify_new(e);
  if (identical(result, e)) result = e;
  if (shared) memo_.emplace(e, result);
  return result;
}

Affine ExprSimplifier::simplify_affine(const Expr& e) {
  Affine result = build(e);
  if (result.terms.size() > 1) recombine(bounds_, result, effort_);
  return result;
}

Affine ExprSimplifier::leaf(const Expr& e) {
  if (auto* v = e.as<Var>()) {
    const Bounds::Entry* known = bounds_.find(v);
    const auto value = known ? known->interval.as_point() : std::nullopt;
    return value ? Affine::of(*value) : Affine::atom(e);
  }
  if (auto* b = e.as<Binary>()) return leaf_binary(e, b);
  Expr simple = simplify_new(e);
  switch (simple->kind) {
    case ExprKind::Load:
    case ExprKind::Select:
    case ExprKind::Cast:
    case ExprKind::Call:
    case ExprKind::Shuffle:
      return Affine::atom(identical(simple, e) ? e : simple);
    default:
      return to_affine(simple);
  }
}

Affine ExprSimplifier::leaf_binary(const Expr& e, const Binary* b) {
  Affine x = simplify_affine(b->a), y = simplify_affine(b->b);
  auto rebuilt = [&] {
    Expr left = to_expr(x), right = to_expr(y);
    if (Expr folded = fold_binary(b->op, left, right)) return to_affine(folded);
    if (Expr folded = integer_identity(b->op, left, right)) return to_affine(folded);
    if (Expr p = scalar_of(left), q = scalar_of(right); p && q && e->dtype.lanes > 1) {
      Affine scalar = Affine::atom(Binary::make(b->op, p, q));
      scalar.lanes = e->dtype.lanes;
      return scalar;
    }
    if (identical(left, b->a) && identical(right, b->b)) return Affine::atom(e);
    return Affine::atom(Binary::make(b->op, left, right));
  };
  switch (b->op) {
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod: {
      bool quotient = b->op == BinaryOp::floor_div;
      if (may_wrap(bounds_, x) || may_wrap(bounds_, y)) return rebuilt();
      Affine result;
      if (y.is_constant()) {
        if (y.constant <= 0 || x.is_constant()) return rebuilt();
        result = quotient ? divide(bounds_, x, y.constant, effort_) : remainder(bounds_, x, y.constant, effort_);
      } else {
        Interval divisor = bounds_.interval(y);
        Affine scalar = y;
        scalar.lanes = 1;
        bool uniform = e->dtype.lanes == 1 || bool(scalar_of(to_expr(y)));
        if (!divisor.min || *divisor.min < 1 || !uniform) return rebuilt();
        auto parts = divide_symbolic(bounds_, x, to_expr(scalar), effort_);
        if (!parts) return rebuilt();
        result = quotient ? parts->quotient : parts->remainder;
      }
      result.lanes = e->dtype.lanes;
      if (result.terms.size() == 1) {
        if (const auto value = bounds_.interval(result).as_point()) return Affine::of(*value, result.lanes);
      }
      return result;
    }
    case BinaryOp::min:
    case BinaryOp::max: {
      if (equal(x, y)) return x;
      if (may_wrap(bounds_, x) || may_wrap(bounds_, y)) return rebuilt();
      Affine difference = y, opposite = x;
      if (!add_scaled(difference, x, -1) || !add_scaled(opposite, y, -1)) return rebuilt();
      bool least = b->op == BinaryOp::min;
      if (prove_nonnegative(bounds_, difference, effort_)) return least ? x : y;
      if (prove_nonnegative(bounds_, opposite, effort_)) return least ? y : x;
      return rebuilt();
    }
    default:
      return rebuilt();
  }
}

std::vector<Expr> ExprSimplifier::simplify_all(const std::vector<Expr>& exprs, bool* changed) {
  std::vector<Expr> result;
  result.reserve(exprs.size());
  for (const Expr& e : exprs) {
    result.push_back(simplify(e));
    *changed |= !(result.back() == e);
  }
  return result;
}

Expr ExprSimplifier::simplify_new(const Expr& e) {
  switch (e->kind) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
      return e;
    case ExprKind::Var: {
      const Bounds::Entry* known = e->dtype.is_float() ? nullptr : bounds_.find(e.as<Var>());
      const auto value = known ? known->interval.as_point() : std::nullopt;
      return value ? IntImm::make(e->dtype, *value) : e;
    }
    case ExprKind::Unary:
      return unary(e, e.as<Unary>());
    case ExprKind::Binary:
      return binary(e, e.as<Binary>());
    case ExprKind::Select:
      return select(e, e.as<Select>());
    case ExprKind::Cast:
      return cast(e, e.as<Cast>());
    case ExprKind::Load:
      return load(e, e.as<Load>());
    case ExprKind::Ramp: {
      auto* r = e.as<Ramp>();
      Expr base = simplify(r->base), stride = simplify(r->stride);
      if (is_int(stride, 0)) return Broadcast::make(base, e->dtype.lanes);
      return base == r->base && stride == r->stride ? e : Ramp::make(base, stride, e->dtype.lanes);
    }
    case ExprKind::Broadcast: {
      auto* b = e.as<Broadcast>();
      Expr value = simplify(b->value);
      if (auto* i = value.as<IntImm>()) return IntImm::make(e->dtype, i->value);
      if (auto* f = value.as<FloatImm>()) return FloatImm::make(e->dtype, f->value);
      return value == b->value ? e : Broadcast::make(value, e->dtype.lanes);
    }
    case ExprKind::Shuffle:
      return shuffle(e, e.as<Shuffle>());
    case ExprKind::Call: {
      auto* c = e.as<Call>();
      bool changed = false;
      std::vector<Expr> args = simplify_all(c->args, &changed);
      return changed ? Call::make(e->dtype, c->call_kind, c->callee, std::move(args)) : e;
    }
    case ExprKind::AddressOf: {
      auto* a = e.as<AddressOf>();
      bool changed = false;
      std::vector<Expr> indices = simplify_all(a->indices, &changed);
      return changed ? AddressOf::make(a->buffer, std::move(indices)) : e;
    }
  }
  return e;
}

Expr ExprSimplifier::unary(const Expr& e, const Unary* u) {
  Expr a = simplify(u->a);
  if (Expr folded = fold_unary(u->op, a)) return folded;
  if (auto* b = a.as<Broadcast>()) return Broadcast::make(simplify(Unary::make(u->op, b->value)), e->dtype.lanes);
  if (auto* inner = a.as<Unary>()) {
    bool twice = u->op == inner->op;
    if (twice && (u->op == UnaryOp::neg || u->op == UnaryOp::bit_not || u->op == UnaryOp::logical_not)) return inner->a;
    if (twice && u->op == UnaryOp::abs && a->dtype.is_float()) return a;
    const bool magnitude_of_negative = u->op == UnaryOp::abs && inner->op == UnaryOp::neg;
    if (magnitude_of_negative && !a->dtype.is_unsigned()) return simplify(Unary::make(UnaryOp::abs, inner->a));
    auto rounds = [](UnaryOp op) {
      return op == UnaryOp::floor || op == UnaryOp::ceil || op == UnaryOp::trunc || op == UnaryOp::round;
    };
    if (rounds(u->op) && rounds(inner->op)) return a;
  }
  if (u->op == UnaryOp::floor || u->op == UnaryOp::ceil || u->op == UnaryOp::trunc || u->op == UnaryOp::round) {
    auto* c = a.as<Cast>();
    if (c && !c->value->dtype.is_float()) return a;
  }
  if (u->op == UnaryOp::logical_not) {
    // Integers only: under NaN, not (a < b) is no comparison.
    auto* b = a.as<Binary>();
    if (b && is_comparison(b->op) && !b->a->dtype.is_float()) {
      switch (b->op) {
        case BinaryOp::lt:
          return simplify(Binary::make(BinaryOp::le, b->b, b->a));
        case BinaryOp::le:
          return simplify(Binary::make(BinaryOp::lt, b->b, b->a));
        case BinaryOp::gt:
          return simplify(Binary::make(BinaryOp::le, b->a, b->b));
        case BinaryOp::ge:
          return simplify(Binary::make(BinaryOp::lt, b->a, b->b));
        case BinaryOp::eq:
          return Binary::make(BinaryOp::ne, b->a, b->b);
        default:
          return Binary::make(BinaryOp::eq, b->a, b->b);
      }
    }
  }
  if (u->op == UnaryOp::abs && a->dtype.is_integer()) {
    Interval known = bounds_.interval(a);
    if (known.min && *known.min >= 0 && known.max) return a;
    // Of the least number the absolute value wraps, and so does the negative.
    if (known.min && known.max && *known.max <= 0) return simplify(Unary::make(UnaryOp::neg, a));
  }
  return a == u->a ? e : Unary::make(u->op, a);
}

Expr ExprSimplifier::binary(const Expr& e, const Binary* b) {
  if (is_comparison(b->op) && is_i64(b->a)) return compare_indices(e, b);
  if (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or) return logic(e, b);
  Expr x = simplify(b->a), y = simplify(b->b);
  if (Expr folded = fold_binary(b->op, x, y)) return folded;
  if (Expr p = scalar_of(x), q = scalar_of(y); p && q && e->dtype.lanes > 1)
    return widen(simplify(Binary::make(b->op, p, q)), e->dtype.lanes);
  if (x->dtype.is_float()) {
    if (Expr same_value = float_identity(b->op, x, y)) return same_value;
    if (is_comparison(b->op)) return x == b->a && y == b->b ? e : Binary::make(b->op, x, y);
    if (is_constant(y))
      if (Expr chosen = fold_arms(x, [&](const Expr& arm) { return fold_binary(b->op, arm, y); })) return chosen;
    if (is_constant(x))
      if (Expr chosen = fold_arms(y, [&](const Expr& arm) { return fold_binary(b->op, x, arm); })) return chosen;
  } else {
    if (Expr same_value = integer_identity(b->op, x, y)) return same_value;
    if (is_comparison(b->op) || b->op == BinaryOp::min || b->op == BinaryOp::max)
      if (Expr decided = compare_narrow(b->op, x, y)) return decided;
  }
  return x == b->a && y == b->b ? e : Binary::make(b->op, x, y);
}

Expr ExprSimplifier::float_identity(BinaryOp op, const Expr& a, const Expr& b) {
  const double* y = as_float(b);
  const double* x = as_float(a);
  switch (op) {
    // -0 + 0 is 0, so only the zero that changes nothing goes.
    case BinaryOp::add:
      if (y && *y == 0 && std::signbit(*y)) return a;
      if (x && *x == 0 && std::signbit(*x)) return b;
      return nullptr;
    case BinaryOp::sub:
      return y && *y == 0 && !std::signbit(*y) ? a : nullptr;
    case BinaryOp::mul:
      if (y && *y == 1) return a;
      if (x && *x == 1) return b;
      return nullptr;
    case BinaryOp::div: {
      if (!y) return nullptr;
      if (*y == 1) return a;
      // A power of two has an exact reciprocal, and both round the same value, if the reciprocal is a normal number.
      int exponent;
      double digits = std::frexp(std::fabs(*y), &exponent);
      int most = b->dtype.bits == 64 ? 1000 : b->dtype == bf16 || b->dtype.bits == 32 ? 120 : 12;
      if (digits == 0.5 && std::abs(exponent) < most)
        return Binary::make(BinaryOp::mul, a, FloatImm::make(b->dtype, 1 / *y));
      return nullptr;
    }
    case BinaryOp::min:
    case BinaryOp::max:
      return identical(a, b) ? a : nullptr;
    default:
      return nullptr;
  }
}

Expr ExprSimplifier::integer_identity(BinaryOp op, const Expr& a, const Expr& b) {
  switch (op) {
    case BinaryOp::add:
      return is_int(b, 0) ? a : is_int(a, 0) ? b : nullptr;
    case BinaryOp::sub:
      return is_int(b, 0) ? a : identical(a, b) ? zero(a->dtype) : nullptr;
    case BinaryOp::mul:
      if (is_int(b, 0) || is_int(a, 1)) return b;
      if (is_int(a, 0) || is_int(b, 1)) return a;
      return nullptr;
    case BinaryOp::floor_div:
      return is_int(b, 1) ? a : is_int(a, 0) || is_int(b, 0) ? zero(a->dtype) : nullptr;
    case BinaryOp::floor_mod:
      return is_int(b, 1) || is_int(a, 0) || is_int(b, 0) ? zero(a->dtype) : nullptr;
    case BinaryOp::min:
    case BinaryOp::max:
      return identical(a, b) ? a : nullptr;
    case BinaryOp::bit_and:
      return is_int(a, 0) || is_int(b, 0) ? zero(a->dtype) : identical(a, b) ? a : nullptr;
    case BinaryOp::bit_or:
      return is_int(b, 0) || identical(a, b) ? a : is_int(a, 0) ? b : nullptr;
    case BinaryOp::bit_xor:
      return is_int(b, 0) ? a : is_int(a, 0) ? b : identical(a, b) ? zero(a->dtype) : nullptr;
    case BinaryOp::shl:
    case BinaryOp::shr:
      return is_int(b, 0) || is_int(a, 0) ? a : nullptr;
    case BinaryOp::eq:
    case BinaryOp::le:
    case BinaryOp::ge:
      return identical(a, b) ? truth(true, a->dtype.lanes) : nullptr;
    case BinaryOp::ne:
    case BinaryOp::lt:
    case BinaryOp::gt:
      return identical(a, b) ? truth(false, a->dtype.lanes) : nullptr;
    default:
      return nullptr;
  }
}

Expr ExprSimplifier::select(const Expr& e, const Select* s) {
  Expr condition = simplify(s->condition);
  if (is_true(condition)) return simplify(s->when_true);
  if (is_false(condition)) return simplify(s->when_false);
  Expr x = simplify(s->when_true), y = simplify(s->when_false);
  if (identical(x, y)) return x;
  if (auto* u = condition.as<Unary>(); u && u->op == UnaryOp::logical_not) return Select::make(u->a, y, x);
  if (auto* inner = x.as<Select>();
      inner && identical(inner->when_false, y) && inner->condition->dtype == condition->dtype)
    return simplify(
        Select::make(Binary::make(BinaryOp::logical_and, condition, inner->condition), inner->when_true, y));
  if (is_true(x) && is_false(y)) return condition;
  if (is_false(x) && is_true(y)) return simplify(Unary::make(UnaryOp::logical_not, condition));
  if (Expr c = scalar_of(condition), p = scalar_of(x), q = scalar_of(y); c && p && q && e->dtype.lanes > 1)
    return Broadcast::make(Select::make(c, p, q), e->dtype.lanes);
  return condition == s->condition && x == s->when_true && y == s->when_false ? e : Select::make(condition, x, y);
}

Expr ExprSimplifier::cast(const Expr& e, const Cast* c) {
  Expr value = simplify(c->value);
  if (Expr folded = fold_cast(e->dtype, value)) return folded;
  if (value->dtype == e->dtype) return value;
  if (value->dtype.is_float() && e->dtype.is_float() && value.as<Select>())
    if (Expr chosen = fold_arms(value, [&](const Expr& arm) { return fold_cast(e->dtype, arm); })) return chosen;
  if (e->dtype == i64 && value->dtype.is_float() && value->kind != ExprKind::Load) {
    Expr given = value == c->value ? e : Cast::make(i64, value);
    if (auto forms = integer_forms(*given.as<Cast>(), bounds_); forms && forms->exact) return to_expr(forms->low);
  }
  if (auto* b = value.as<Broadcast>())
    return Broadcast::make(simplify(Cast::make(e->dtype.element(), b->value)), e->dtype.lanes);
  if (auto* inner = value.as<Cast>()) {
    DType from = inner->value->dtype, middle = value->dtype, to = e->dtype;
    bool integers = (from.is_integer() || from.is_bool()) && middle.is_integer() && to.is_integer();
    if (integers) {
      // The middle step changes nothing when it keeps every value, or when it is at least as wide as the last.
      Interval values = bounds_.interval(inner->value), fits = Interval::of(middle.element());
      bool keeps = middle.bits < 64
                       ? values.min && values.max && fits.contains(*values.min) && fits.contains(*values.max)
                       : from.bits < 64 && (middle.is_signed() || !from.is_signed());
      if (keeps || middle.bits >= to.bits) return from == to ? inner->value : Cast::make(to, inner->value);
    }
  }
  if (const Expr narrow = narrow_cast(value, e->dtype)) return simplify(narrow);
  return value == c->value ? e : Cast::make(e->dtype, value);
}

Expr ExprSimplifier::load(const Expr& e, const Load* l) {
  bool changed = false;
  std::vector<Expr> indices = simplify_all(l->indices, &changed);
  Expr mask = simplify(l->mask);
  if (mask && is_false(mask)) return zero(e->dtype);
  if (mask && is_true(mask)) mask = nullptr;
  changed |= !(mask == l->mask);
  int lanes = e->dtype.lanes;
  if (lanes > 1) {
    bool uniform =
        std::all_of(indices.begin(), indices.end(), [](const Expr& i) { return i->dtype.lanes == 1 || scalar_of(i); });
    if (uniform && (!mask || scalar_of(mask))) {
      for (Expr& i : indices)
        if (i->dtype.lanes > 1) i = scalar_of(i);
      return Broadcast::make(Load::make(l->buffer, std::move(indices), mask ? scalar_of(mask) : nullptr), lanes);
    }
  }
  return changed ? Load::make(l->buffer, std::move(indices), std::move(mask)) : e;
}

Expr ExprSimplifier::shuffle(const Expr& e, const Shuffle* s) {
  bool changed = false;
  std::vector<Expr> vectors = simplify_all(s->vectors, &changed);
  const Expr& first = vectors[0];
  bool all_same = std::all_of(vectors.begin(), vectors.end(), [&](const Expr& v) { return identical(v, first); });
  if (all_same) {
    if (Expr scalar = scalar_of(first)) return widen(scalar, e->dtype.lanes);
    if (first->dtype.is_scalar()) return widen(first, e->dtype.lanes);
    bool identity = vectors.size() == 1 && e->dtype == first->dtype;
    for (size_t i = 0; identity && i < s->lanes.size(); ++i) identity = s->lanes[i] == static_cast<int>(i);
    if (identity) return first;
  }
  return changed ? Shuffle::make(std::move(vectors), s->lanes) : e;
}

}  // namespace lathe
