#include <algorithm>
#include <functional>
#include "ir/analysis/comparison.h"
#include "ir/analysis/float_interval.h"
#include "ir/analysis/interval.h"

namespace lathe {
namespace {

/// Are all values so far from the ends of 64 bits that sums of a few do not wrap?
bool is_safe(const Interval& i) {
  constexpr std::int64_t safe = std::int64_t{1} << 52;
  return i.is_bounded() && *i.min > -safe && *i.max < safe;
}

/// One query: remembers shared subexpressions so that it stays linear on shared graphs.
class IntervalQuery {
 public:
  explicit IntervalQuery(const Bounds& bounds) : bounds_(bounds) {}

  Interval of(const Affine& a) {
    Interval sum = Interval::point(a.constant);
    for (const AffineTerm& t : a.terms) sum = sum + of_atom(t.atom, a.lanes) * Interval::point(t.coefficient);
    return sum;
  }

  Interval of(const Expr& e) {
    if (auto* imm = e.as<IntImm>()) return Interval::point(imm->value);
    if (e->kind == ExprKind::Var) return of_atom(e, 1);
    if (e->dtype.is_float()) return Interval::everything();
    if (e->references.load(std::memory_order_relaxed) <= 1) return of_new(e);
    for (auto& [node, known] : memo_)
      if (node == e) return known;
    Interval result = of_new(e);
    if (memo_.size() < most_remembered) memo_.emplace_back(e, result);
    return result;
  }

 private:
  static constexpr size_t most_remembered = 64;

  Interval of_new(const Expr& e) {
    if (++steps_ > most_steps) return Interval::of(e->dtype.element());
    if (e->dtype.element() == i64) return of(to_affine(e));
    return intersect(Interval::of(e->dtype.element()), of_operation(e));
  }

  Interval of_atom(const Expr& e, int lanes) {
    if (auto* v = e.as<Var>()) {
      if (v == lane_variable().get()) return Interval::between(0, lanes - 1);
      const Bounds::Entry* entry = bounds_.find(v);
      if (!entry) return Interval::of(v->dtype.element());
      if (entry->value && ++steps_ < most_steps) return intersect(of(entry->value), entry->interval);
      return entry->interval;
    }
    if (auto* b = e.as<Binary>(); b && b->op == BinaryOp::mul && e->dtype == i64)
      return of_atom(b->a, lanes) * of_atom(b->b, lanes);
    Interval result = e->dtype.element() == i64 ? of_operation(e) : of(e);
    for (const Affine& known : bounds_.inequalities()) {
      // A single-term assumption c * e + k >= 0 bounds a Load or other opaque atom by a constant.
      if (known.terms.size() != 1 || !identical(known.terms[0].atom, e)) continue;
      std::int64_t c = known.terms[0].coefficient;
      if (c == 1) result = intersect(result, {-known.constant, {}, 1, 0});
      if (c == -1) result = intersect(result, {{}, known.constant, 1, 0});
    }
    return result;
  }

  /// The lesser of two places whose sum is known, as of one and its mirror image, is no more than half of that, and the
  /// greater no less; of places so far from the ends of 64 bits that none wraps.
  static Interval below_half(const Binary& extreme, const Interval& x, const Interval& y, const Interval& found) {
    if (extreme.dtype != i64 || (!extreme.a.as<Binary>() && !extreme.b.as<Binary>()) || !is_safe(x) || !is_safe(y))
      return found;
    Affine sum = to_affine(extreme.a);
    if (!add_scaled(sum, to_affine(extreme.b), 1) || !sum.is_constant()) return found;
    const std::int64_t half = sum.constant >> 1;
    if (extreme.op == BinaryOp::min) return intersect(found, {{}, half, 1, 0});
    return intersect(found, {sum.constant - half, {}, 1, 0});
  }

  /// The interval of a non-affine operation, before it wraps to its type.
  Interval of_operation(const Expr& e) {
    DType dtype = e->dtype.element();
    auto fitting = [&](const Interval& i) {
      Interval all = Interval::of(dtype);
      if (dtype == i64) return i;
      bool inside = i.min && i.max && dtype.bits < 64 && *i.min >= *all.min && *i.max <= *all.max;
      if (dtype.bits == 64) inside = i.min && i.max && *i.min >= 0;
      return inside ? i : all;
    };
    switch (e->kind) {
      case ExprKind::Binary: {
        auto* b = e.as<Binary>();
        if (b->a->dtype.is_float()) return Interval::of(dtype);
        if (is_comparison(b->op)) return Interval::of(boolean);
        Interval x = of(b->a), y = of(b->b);
        switch (b->op) {
          case BinaryOp::add:
            return fitting(x + y);
          case BinaryOp::sub:
            return fitting(x - y);
          case BinaryOp::mul:
            return fitting(x * y);
          case BinaryOp::floor_div:
            return fitting(unsigned_unknown(x, dtype) ? Interval::of(dtype) : floor_div(x, y));
          case BinaryOp::floor_mod:
            return fitting(unsigned_unknown(x, dtype) ? Interval::of(dtype) : floor_mod(x, y));
          case BinaryOp::min:
            // The lesser of a u64 of any size and one that is known is no more than that.
            if (unsigned_unknown(x + y, dtype)) {
              const Interval& known = unsigned_unknown(x, dtype) ? y : x;
              return unsigned_unknown(known, dtype) ? Interval::of(dtype) : Interval::between(0, *known.max);
            }
            return fitting(below_half(*b, x, y, min(x, y)));
          case BinaryOp::max:
            return fitting(unsigned_unknown(x + y, dtype) ? Interval::of(dtype) : below_half(*b, x, y, max(x, y)));
          case BinaryOp::bit_and:
            // A value that is not negative bounds the result, whatever the other is.
            if (x.min && *x.min >= 0 && x.max && !(y.max && y.min && *y.min >= 0 && *y.max < *x.max))
              return Interval::between(0, *x.max);
            if (y.min && *y.min >= 0 && y.max) return Interval::between(0, *y.max);
            return Interval::of(dtype);
          case BinaryOp::shr:
            if (const auto by = y.as_point();
                by && *by >= 0 && *by < dtype.bits && *by < 62 && !unsigned_unknown(x, dtype))
              return floor_div(x, Interval::point(std::int64_t{1} << *by));
            return Interval::of(dtype);
          case BinaryOp::logical_and:
          case BinaryOp::logical_or:
            return Interval::of(boolean);
          default:
            return Interval::of(dtype);
        }
      }
      case ExprKind::Unary: {
        auto* u = e.as<Unary>();
        if (u->a->dtype.is_float() || u->op == UnaryOp::logical_not) return Interval::of(dtype);
        Interval x = of(u->a);
        if (u->op == UnaryOp::neg) return fitting(x * Interval::point(-1));
        if (u->op == UnaryOp::abs && !unsigned_unknown(x, dtype)) {
          if (!x.is_bounded()) return Interval::of(dtype);
          return fitting(max(max(x, x * Interval::point(-1)), Interval::point(0)));
        }
        return Interval::of(dtype);
      }
      case ExprKind::Select: {
        std::vector<Affine> known;
        return of_choice(*e.as<Select>(), known);
      }
      case ExprKind::Cast: {
        auto* c = e.as<Cast>();
        if (dtype.is_bool()) return Interval::of(dtype);
        if (c->value->dtype.is_float()) return integer_interval(*c, bounds_);
        Interval x = of(c->value);
        if (dtype == i64 && c->value->dtype.bits == 64 && c->value->dtype.is_unsigned() && !x.is_bounded())
          return Interval::everything();
        return fitting(x);
      }
      case ExprKind::Broadcast:
        return of(e.as<Broadcast>()->value);
      case ExprKind::Ramp: {
        auto* r = e.as<Ramp>();
        return fitting(of(r->base) + of(r->stride) * Interval::between(0, e->dtype.lanes - 1));
      }
      case ExprKind::Shuffle: {
        auto* s = e.as<Shuffle>();
        Interval all = of(s->vectors[0]);
        for (const Expr& v : s->vectors) all = unite(all, of(v));
        return all;
      }
      case ExprKind::Call: {
        auto* c = e.as<Call>();
        if (c->callee == "population_count") return Interval::between(0, 64);
        if (c->callee == "reduce_min" || c->callee == "reduce_max") return of(c->args[0]);
        return Interval::of(dtype);
      }
      default:
        return Interval::of(dtype);
    }
  }

  /// `known` are affine forms that are >= 0 where the choice is made.
  Interval of_choice(const Select& choice, std::vector<Affine>& known) {
    return unite(of_arm(choice.when_true, choice.condition, true, known),
                 of_arm(choice.when_false, choice.condition, false, known));
  }

  /// The arm of a choice, which is known to be taken: what the condition compares may stand in it, as in a place that
  /// is turned back at both borders, select(i < 0, -i, select(i < n, i, 2 * n - 2 - i)).
  Interval of_arm(const Expr& arm, const Expr& condition, bool taken, std::vector<Affine>& known) {
    const size_t before = known.size();
    auto* b = condition.as<Binary>();
    if (b && is_comparison(b->op) && b->a->dtype == i64) append_inequalities(taken ? b->op : negated(b->op), *b, known);
    auto* inner = arm.as<Select>();
    const bool nested = inner && arm->dtype == i64 && before < most_nested && ++steps_ <= most_steps;
    Interval result = of_known(arm, known);
    if (nested) result = intersect(result, of_choice(*inner, known));
    known.resize(before);
    return result;
  }

  Interval of_known(const Expr& arm, const std::vector<Affine>& known) {
    Interval result = of(arm);
    if (arm->dtype != i64 || known.empty() || result.as_point()) return result;
    const Affine value = to_affine(arm);
    for (const Affine& form : known) {
      for (const std::int64_t sign : {1, -1}) {
        Affine rest = value;
        if (!add_scaled(rest, form, -sign) || !rest.is_constant() || may_wrap(bounds_, form) ||
            may_wrap(bounds_, value))
          continue;
        const Interval beyond = sign > 0 ? Interval{rest.constant, {}, 1, 0} : Interval{{}, rest.constant, 1, 0};
        result = intersect(result, beyond);
      }
    }
    return result;
  }

  /// A u64 of unknown size may read as negative: nothing is known of an order among such.
  static bool unsigned_unknown(const Interval& i, DType dtype) {
    return dtype.is_unsigned() && dtype.bits == 64 && !(i.min && *i.min >= 0 && i.max);
  }

  static constexpr int most_steps = 2000;
  static constexpr size_t most_nested = 8;
  const Bounds& bounds_;
  std::vector<std::pair<Expr, Interval>> memo_;
  int steps_ = 0;
};

}  // namespace

Interval Bounds::interval(const Expr& e) const {
  return IntervalQuery(*this).of(e);
}
Interval Bounds::interval(const Affine& a) const {
  return IntervalQuery(*this).of(a);
}

namespace {

/// Gives up, with the safe answer, on graphs that are large.
bool may_wrap(const Bounds& bounds, const Expr& e, int& steps) {
  constexpr int most_steps = 100;
  if (++steps > most_steps) return true;
  auto any = [&](const Expr& a, const Expr& b) { return may_wrap(bounds, a, steps) || may_wrap(bounds, b, steps); };
  if (auto* imm = e.as<IntImm>()) return !is_safe(Interval::point(imm->value));
  if (auto* v = e.as<Var>()) {
    const Expr* value = bounds.value(v);
    return value && may_wrap(bounds, *value, steps);
  }
  if (auto* r = e.as<Ramp>()) return any(r->base, r->stride);
  if (auto* b = e.as<Broadcast>()) return may_wrap(bounds, b->value, steps);
  if (auto* s = e.as<Select>()) return any(s->when_true, s->when_false);
  if (auto* u = e.as<Unary>(); u && (u->op == UnaryOp::neg || u->op == UnaryOp::abs))
    return may_wrap(bounds, u->a, steps);
  if (auto* b = e.as<Binary>()) {
    switch (b->op) {
      case BinaryOp::add:
      case BinaryOp::sub:
      case BinaryOp::mul:
      case BinaryOp::floor_div:
      case BinaryOp::floor_mod:
        return any(b->a, b->b);
      case BinaryOp::min:
      case BinaryOp::max: {
        // What keeps a loaded value in bounds computes nothing of it.
        const std::function<bool(const Expr&)> computes = [&](const Expr& x) {
          const Binary* extreme = x.as<Binary>();
          if (extreme && (extreme->op == BinaryOp::min || extreme->op == BinaryOp::max))
            return computes(extreme->a) || computes(extreme->b);
          return !x.as<Load>() && may_wrap(bounds, x, steps);
        };
        return is_safe(bounds.interval(e)) ? computes(e) : any(b->a, b->b);
      }
      default:
        break;
    }
  }
  return !is_safe(bounds.interval(e));
}

}  // namespace

bool may_wrap(const Bounds& bounds, const Expr& e) {
  int steps = 0;
  return may_wrap(bounds, e, steps);
}

bool may_wrap(const Bounds& bounds, const Affine& a) {
  int steps = 0;
  return std::any_of(a.terms.begin(), a.terms.end(),
                     [&](const AffineTerm& t) { return may_wrap(bounds, t.atom, steps); });
}

}  // namespace lathe
