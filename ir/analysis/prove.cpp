#include "ir/analysis/prove.h"

#include <algorithm>
#include <numeric>

#include "ir/analysis/simplify.h"

namespace lathe {
namespace {

const Binary* as_op(const Expr& e, BinaryOp op) {
  auto* b = e.as<Binary>();
  return b && b->op == op ? b : nullptr;
}

/// Divides by the greatest common divisor of the coefficients: over integers, g*t + k >= 0 is t + floor(k/g) >= 0.
void tighten(Affine& d) {
  std::int64_t g = 0;
  for (const AffineTerm& t : d.terms) {
    if (t.coefficient == INT64_MIN) return;
    g = std::gcd(g, t.coefficient);
  }
  if (g <= 1) return;
  for (AffineTerm& t : d.terms) t.coefficient /= g;
  std::int64_t q = d.constant / g;
  d.constant = d.constant % g < 0 ? q - 1 : q;
}

class Prover {
 public:
  Prover(const Bounds& bounds, int effort) : bounds_(bounds), effort_(effort) {}

  bool nonnegative(Affine d, int subtractions) {
    if (--effort_ < 0) return false;
    tighten(d);
    Interval known = bounds_.interval(d);
    if (known.min && *known.min >= 0) return true;
    if (d.is_constant() || (known.max && *known.max < 0)) return false;
    if (expand_value(d)) return nonnegative(std::move(d), subtractions);
    if (subtractions > 0 && subtract_known(d, subtractions)) return true;
    // Rewrites that lose nothing come first, then the ones that may.
    for (const BinaryOp wanted : {BinaryOp::logical_and, BinaryOp::logical_or})
      for (size_t i = 0; i < d.terms.size(); ++i)
        if (min_max(d, i) == wanted)
          return wanted == BinaryOp::logical_and ? both(d, i, subtractions) : either(d, i, subtractions);
    if (eliminate_division(d, subtractions) || eliminate_symbolic_division(d, subtractions)) return true;
    if (eliminate_variable(d, subtractions)) return true;
    return eliminate_modulo(d, subtractions);
  }

 private:
  /// Let-bound variables become their values.
  bool expand_value(Affine& d) {
    for (const AffineTerm& t : d.terms) {
      auto* v = t.atom.as<Var>();
      const Expr* value = v ? bounds_.value(v) : nullptr;
      if (!value || !(v->dtype == i64)) continue;
      Affine result = d;
      if (!add_term(result, t.atom, -t.coefficient) || !add_scaled(result, to_affine(*value), t.coefficient))
        return false;
      d = std::move(result);
      return true;
    }
    return false;
  }

  /// d >= k*a + rest with a >= 0 known: proves rest >= 0 instead.
  bool subtract_known(const Affine& d, int subtractions) {
    const auto& known = bounds_.inequalities();
    for (size_t n = known.size(); n-- > 0;) {
      const Affine& a = known[n];
      for (const AffineTerm& t : a.terms) {
        std::int64_t c = d.coefficient(t.atom);
        if (c == 0 || (c > 0) != (t.coefficient > 0) || t.coefficient == INT64_MIN || c == INT64_MIN) continue;
        std::int64_t g = std::gcd(c, t.coefficient);
        std::int64_t scale = std::abs(t.coefficient) / g, times = std::abs(c) / g;
        if (scale > 4096) continue;
        Affine rest = Affine::of(0, d.lanes);
        if (!add_scaled(rest, d, scale) || !add_scaled(rest, a, -times)) continue;
        if (!add_constant(rest, scale - 1)) continue;  // scale * d > -scale says d >= 0, as d is an integer
        if (nonnegative(std::move(rest), subtractions - 1)) return true;
        break;
      }
      if (effort_ <= 0) return false;
    }
    return false;
  }

  /// How term i of d, a min, max or select, is to be bounded: by both of its arms, or by either.
  std::optional<BinaryOp> min_max(const Affine& d, size_t i) const {
    const AffineTerm& t = d.terms[i];
    if (t.atom.as<Select>()) return BinaryOp::logical_and;
    if (as_op(t.atom, BinaryOp::min)) return t.coefficient > 0 ? BinaryOp::logical_and : BinaryOp::logical_or;
    if (as_op(t.atom, BinaryOp::max)) return t.coefficient < 0 ? BinaryOp::logical_and : BinaryOp::logical_or;
    return std::nullopt;
  }

  bool with_arm(const Affine& d, size_t i, const Expr& arm, int subtractions) {
    Affine result = d;
    AffineTerm t = d.terms[i];
    return add_term(result, t.atom, -t.coefficient) && add_scaled(result, to_affine(arm), t.coefficient) &&
           nonnegative(std::move(result), subtractions);
  }
  static std::pair<Expr, Expr> arms(const Expr& e) {
    if (auto* s = e.as<Select>()) return {s->when_true, s->when_false};
    return {e.as<Binary>()->a, e.as<Binary>()->b};
  }
  bool both(const Affine& d, size_t i, int subtractions) {
    auto [a, b] = arms(d.terms[i].atom);
    return with_arm(d, i, a, subtractions) && with_arm(d, i, b, subtractions);
  }
  bool either(const Affine& d, size_t i, int subtractions) {
    auto [a, b] = arms(d.terms[i].atom);
    return with_arm(d, i, a, subtractions) || with_arm(d, i, b, subtractions);
  }

  /// c * (x // c) lies in [x - (c - 1), x], and is x - x % c where that remainder is known.
  bool eliminate_division(const Affine& d, int subtractions) {
    for (const AffineTerm& t : d.terms) {
      auto* division = as_op(t.atom, BinaryOp::floor_div);
      const std::int64_t* c = division ? as_int(division->b) : nullptr;
      if (!c || *c <= 0 || *c > (1 << 30) || t.coefficient == INT64_MIN) continue;
      std::int64_t g = std::gcd(t.coefficient, *c), scale = *c / g, times = t.coefficient / g;
      Affine result = Affine::of(0, d.lanes);
      std::int64_t removed, rounding = 0;
      if (__builtin_mul_overflow(-t.coefficient, scale, &removed)) continue;
      const Affine dividend = to_affine(division->a);
      const Interval known = bounds_.interval(dividend);
      const bool exact = known.multiple_of > 0 && known.multiple_of % *c == 0;
      const std::int64_t remainder = exact ? (known.remainder % *c + *c) % *c : *c - 1;
      if ((times > 0 || exact) && __builtin_mul_overflow(-times, remainder, &rounding)) continue;
      if (!add_scaled(result, d, scale) || !add_term(result, t.atom, removed)) continue;
      if (!add_scaled(result, dividend, times)) continue;
      if (!add_constant(result, scale - 1) || !add_constant(result, rounding)) continue;
      if (nonnegative(std::move(result), subtractions)) return true;
      return false;
    }
    return false;
  }

  /// As eliminate_division, by a symbolic n > 0; also where n is a factor already, and x % n <= n - 1.
  bool eliminate_symbolic_division(const Affine& d, int subtractions) {
    for (const AffineTerm& t : d.terms) {
      std::vector<Expr> factors;
      append_factors(t.atom, factors);
      if (factors.size() > 2 || t.atom->dtype.lanes > 1) continue;
      for (size_t i = 0; i < factors.size(); ++i) {
        auto* b = factors[i].as<Binary>();
        if (!b || (b->op != BinaryOp::floor_div && b->op != BinaryOp::floor_mod) || as_int(b->b)) continue;
        Interval divisor = bounds_.interval(b->b);
        if (!divisor.min || *divisor.min < 1) continue;
        Affine n = to_affine(b->b), last = n, result = d;
        last.constant -= 1;
        if (!add_term(result, t.atom, -t.coefficient)) continue;
        bool positive = t.coefficient > 0;
        if (b->op == BinaryOp::floor_mod) {
          if (factors.size() > 1 || positive || !add_scaled(result, last, t.coefficient)) continue;
          return nonnegative(std::move(result), subtractions);
        }
        bool scaled = factors.size() == 2;
        if (scaled && !identical(factors[1 - i], b->b)) continue;
        if (!scaled && (!multiply(result, n) || !add_scaled(result, last, 1))) continue;
        if (!add_scaled(result, to_affine(b->a), t.coefficient)) continue;
        if (positive && !add_scaled(result, last, -t.coefficient)) continue;
        return nonnegative(std::move(result), subtractions);
      }
    }
    return false;
  }

  /// The newest variable with a symbolic domain, alone or in a product whose other factors are not negative.
  bool eliminate_variable(const Affine& d, int subtractions) {
    const AffineTerm* chosen = nullptr;
    Expr chosen_variable;
    int newest = -1;
    auto consider = [&](const AffineTerm& t, const Expr& e) {
      auto* v = e.as<Var>();
      int at = v ? bounds_.position(v) : -1;
      if (at <= newest) return;
      const Bounds::Entry* entry = bounds_.find(v);
      if (!entry->domain) return;
      const Affine& end = t.coefficient > 0 ? entry->domain->low : entry->domain->high;
      bool alone = e == t.atom;
      if (alone && end.is_constant()) return;
      newest = at;
      chosen = &t;
      chosen_variable = e;
    };
    for (const AffineTerm& t : d.terms) {
      if (t.atom.as<Var>()) {
        consider(t, t.atom);
      } else if (as_op(t.atom, BinaryOp::mul) && t.atom->dtype == i64) {
        std::vector<Expr> factors;
        append_factors(t.atom, factors);
        for (const Expr& f : factors) {
          std::vector<Expr> rest;
          bool skipped = false;
          for (const Expr& other : factors) {
            if (other == f && !skipped)
              skipped = true;
            else
              rest.push_back(other);
          }
          Interval sign = bounds_.interval(product(rest));
          if (sign.min && *sign.min >= 0) consider(t, f);
        }
      }
    }
    if (!chosen) return false;
    const Bounds::Entry* entry = bounds_.find(chosen_variable.as<Var>());
    Affine end = chosen->coefficient > 0 ? entry->domain->low : entry->domain->high;
    if (!(chosen_variable == chosen->atom)) {
      std::vector<Expr> factors;
      append_factors(chosen->atom, factors);
      factors.erase(std::find(factors.begin(), factors.end(), chosen_variable));
      if (!multiply(end, to_affine(product(std::move(factors))))) return false;
    }
    Affine result = d;
    return add_term(result, chosen->atom, -chosen->coefficient) && add_scaled(result, end, chosen->coefficient) &&
           nonnegative(std::move(result), subtractions);
  }

  /// x % c is x - c * (x // c): meets divisions that stand elsewhere.
  bool eliminate_modulo(const Affine& d, int subtractions) {
    for (const AffineTerm& t : d.terms) {
      auto* modulo = as_op(t.atom, BinaryOp::floor_mod);
      const std::int64_t* c = modulo ? as_int(modulo->b) : nullptr;
      std::int64_t scaled;
      if (!c || *c <= 0 || __builtin_mul_overflow(t.coefficient, -*c, &scaled)) continue;
      Affine result = d;
      if (!add_term(result, t.atom, -t.coefficient) || !add_scaled(result, to_affine(modulo->a), t.coefficient))
        continue;
      if (!add_term(result, Binary::make(BinaryOp::floor_div, modulo->a, modulo->b), scaled)) continue;
      return nonnegative(std::move(result), subtractions);
    }
    return false;
  }

  const Bounds& bounds_;
  int effort_;
};

constexpr int most_subtractions = 2;

bool lowered(Affine d, std::int64_t by, Affine& out) {
  if (__builtin_sub_overflow(d.constant, by, &d.constant)) return false;
  out = std::move(d);
  return true;
}

}  // namespace

bool prove_nonnegative(const Bounds& bounds, const Affine& d, int effort) {
  return Prover(bounds, effort).nonnegative(d, most_subtractions);
}

Truth decide_less(const Bounds& bounds, const Affine& left, const Affine& right, int effort) {
  Affine d = right, reverse = left, strict;
  if (!add_scaled(d, left, -1) || !add_scaled(reverse, right, -1)) return Truth::unknown;
  if (lowered(d, 1, strict) && prove_nonnegative(bounds, strict, effort)) return Truth::yes;
  if (prove_nonnegative(bounds, reverse, effort)) return Truth::no;
  return Truth::unknown;
}

Truth decide_equal(const Bounds& bounds, const Affine& left, const Affine& right, int effort) {
  Affine d = right, reverse = left, strict;
  if (!add_scaled(d, left, -1) || !add_scaled(reverse, right, -1)) return Truth::unknown;
  if (d.is_constant()) return d.constant == 0 ? Truth::yes : Truth::no;
  Interval known = bounds.interval(d);
  if (!known.contains(0)) return Truth::no;
  if (known.as_point()) return Truth::yes;
  // A common divisor of the coefficients that does not divide the constant leaves no solution.
  std::int64_t g = 0;
  for (const AffineTerm& t : d.terms) g = t.coefficient == INT64_MIN ? 1 : std::gcd(g, t.coefficient);
  if (g > 1 && d.constant % g != 0) return Truth::no;
  if (lowered(d, 1, strict) && prove_nonnegative(bounds, strict, effort)) return Truth::no;
  if (lowered(reverse, 1, strict) && prove_nonnegative(bounds, strict, effort)) return Truth::no;
  if (prove_nonnegative(bounds, d, effort) && prove_nonnegative(bounds, reverse, effort)) return Truth::yes;
  return Truth::unknown;
}

}  // namespace lathe
