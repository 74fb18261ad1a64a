#include <algorithm>
#include <numeric>

#include "ir/analysis/fold.h"
#include "ir/analysis/simplify_expr.h"

namespace lathe {
namespace {

std::int64_t floor_quotient(std::int64_t a, std::int64_t c) {
  std::int64_t q = a / c;
  return a % c < 0 ? q - 1 : q;
}

const Binary* division_atom(const Expr& e, BinaryOp op, const std::int64_t** c) {
  auto* b = e.as<Binary>();
  if (!b || b->op != op) return nullptr;
  *c = as_int(b->b);
  return *c && **c > 0 ? b : nullptr;
}

/// The atom `x op c`, scalar where x has no lane in it.
Affine quotient_atom(Affine x, BinaryOp op, std::int64_t c) {
  int lanes = x.lanes;
  if (lanes > 1) {
    bool varies = std::any_of(x.terms.begin(), x.terms.end(), [](const AffineTerm& t) {
      if (t.atom->dtype.lanes > 1) return true;
      std::vector<Expr> factors;
      append_factors(t.atom, factors);
      return std::find(factors.begin(), factors.end(), Expr(lane_variable())) != factors.end();
    });
    if (!varies) x.lanes = 1;
  }
  Expr dividend = to_expr(x);
  Affine result = Affine::atom(Binary::make(op, dividend, IntImm::make(dividend->dtype, c)));
  result.lanes = lanes;
  return result;
}

/// When every value of x lies in one block of c numbers, the number of that block.
std::optional<std::int64_t> single_block(const Bounds& bounds, const Affine& x, std::int64_t c, int effort) {
  Interval known = bounds.interval(x);
  if (known.min && known.max) {
    std::int64_t first = floor_quotient(*known.min, c);
    if (first == floor_quotient(*known.max, c)) return first;
  }
  if (x.is_constant()) return floor_quotient(x.constant, c);
  // Only a symbolic bound can say more, and only of values from 0 on.
  bool hopeful = !known.max || !known.min || !bounds.inequalities().empty();
  if (!hopeful || x.terms.size() > 6) return std::nullopt;
  Affine room = Affine::of(c - 1, x.lanes);
  if (!add_scaled(room, x, -1)) return std::nullopt;
  bool low = known.min && *known.min >= 0;
  if ((low || prove_nonnegative(bounds, x, effort)) && prove_nonnegative(bounds, room, effort)) return 0;
  return std::nullopt;
}

/// x = c * whole + rest, where rest's constant lies in [0, c). `exact` holds terms that are multiples of c by what is
/// known of their atoms.
struct Parts {
  Affine whole, exact, rest;
};

Parts split(const Bounds& bounds, const Affine& x, std::int64_t c) {
  Parts parts;
  parts.whole.lanes = parts.exact.lanes = parts.rest.lanes = x.lanes;
  for (const AffineTerm& t : x.terms) {
    if (t.coefficient % c == 0) {
      parts.whole.terms.push_back({t.atom, t.coefficient / c});
      continue;
    }
    Interval known = bounds.interval(t.atom);
    if (known.multiple_of > 1 && known.remainder == 0 &&
        (known.multiple_of % c == 0 || (static_cast<__int128>(known.multiple_of) * t.coefficient) % c == 0))
      parts.exact.terms.push_back(t);
    else
      parts.rest.terms.push_back(t);
  }
  parts.whole.constant = floor_quotient(x.constant, c);
  parts.rest.constant = x.constant - parts.whole.constant * c;
  return parts;
}

/// x = g * large + small with all of small in one block of g: the largest such g that divides c.
struct Grouping {
  std::int64_t g;
  Affine large, small;
};

std::optional<Grouping> group(const Bounds& bounds, const Affine& x, std::int64_t c, int effort) {
  std::vector<std::int64_t> candidates;
  for (const AffineTerm& t : x.terms) {
    std::int64_t g = std::gcd(t.coefficient, c);
    if (g > 1 && std::find(candidates.begin(), candidates.end(), g) == candidates.end()) candidates.push_back(g);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  for (std::int64_t g : candidates) {
    Grouping result{g, Affine::of(0, x.lanes), Affine::of(0, x.lanes)};
    for (const AffineTerm& t : x.terms) {
      if (t.coefficient % g == 0)
        result.large.terms.push_back({t.atom, t.coefficient / g});
      else
        result.small.terms.push_back(t);
    }
    result.large.constant = floor_quotient(x.constant, g);
    result.small.constant = x.constant - result.large.constant * g;
    auto block = single_block(bounds, result.small, g, effort);
    if (!block) continue;
    result.large.constant += *block;
    result.small.constant -= *block * g;
    return result;
  }
  return std::nullopt;
}

}  // namespace

Affine divide(const Bounds& bounds, const Affine& x, std::int64_t c, int effort) {
  if (c == 1) return x;
  Parts parts = split(bounds, x, c);
  Affine result = parts.whole;
  for (const AffineTerm& t : parts.exact.terms) {
    Affine single = Affine::of(0, 1);
    single.terms.push_back(t);
    single.lanes = t.atom->dtype.lanes;
    if (t.atom == lane_variable()) single.lanes = x.lanes;
    if (!add_scaled(result, quotient_atom(single, BinaryOp::floor_div, c), 1))
      return quotient_atom(x, BinaryOp::floor_div, c);
  }
  if (auto block = single_block(bounds, parts.rest, c, effort)) {
    result.constant += *block;
    return result;
  }
  Affine rest = std::move(parts.rest);
  Affine quotient;
  const std::int64_t* inner = nullptr;
  const bool unit = rest.terms.size() == 1 && rest.terms[0].coefficient == 1, single = unit && rest.constant == 0;
  std::int64_t whole, shift;
  if (auto grouping = group(bounds, rest, c, effort)) {
    quotient = divide(bounds, grouping->large, c / grouping->g, effort);
  } else if (auto* d = unit ? division_atom(rest.terms[0].atom, BinaryOp::floor_div, &inner) : nullptr;
             d && !__builtin_mul_overflow(*inner, c, &whole) &&
             !__builtin_mul_overflow(*inner, rest.constant, &shift)) {
    Affine dividend = to_affine(d->a);
    if (!add_constant(dividend, shift)) return quotient_atom(x, BinaryOp::floor_div, c);
    quotient = divide(bounds, dividend, whole, effort);  // (x // a + m) // b = (x + a m) // (a b)
  } else if (auto* m = single ? division_atom(rest.terms[0].atom, BinaryOp::floor_mod, &inner) : nullptr;
             m && *inner % c == 0) {
    quotient = remainder(bounds, divide(bounds, to_affine(m->a), c, effort), *inner / c, effort);
  } else {
    quotient = quotient_atom(rest, BinaryOp::floor_div, c);
  }
  if (!add_scaled(result, quotient, 1)) return quotient_atom(x, BinaryOp::floor_div, c);
  result.lanes = x.lanes;
  return result;
}

Affine remainder(const Bounds& bounds, const Affine& x, std::int64_t c, int effort) {
  if (c == 1) return Affine::of(0, x.lanes);
  Affine rest = split(bounds, x, c).rest;
  if (auto block = single_block(bounds, rest, c, effort)) {
    rest.constant -= *block * c;
    return rest;
  }
  if (auto grouping = group(bounds, rest, c, effort)) {
    Affine result = remainder(bounds, grouping->large, c / grouping->g, effort);
    Affine scaled = Affine::of(0, x.lanes);
    if (add_scaled(scaled, result, grouping->g) && add_scaled(scaled, grouping->small, 1)) return scaled;
  }
  const std::int64_t* inner = nullptr;
  bool single = rest.terms.size() == 1 && rest.terms[0].coefficient == 1 && rest.constant == 0;
  if (auto* m = single ? division_atom(rest.terms[0].atom, BinaryOp::floor_mod, &inner) : nullptr; m && *inner % c == 0)
    return remainder(bounds, to_affine(m->a), c, effort);
  // Coefficients count modulo c only; the smaller ones read better and keep negative ones out.
  for (AffineTerm& t : rest.terms) {
    t.coefficient %= c;
    if (t.coefficient < 0) t.coefficient += c;
  }
  if (auto block = single_block(bounds, rest, c, effort)) {
    rest.constant -= *block * c;
    return rest;
  }
  return quotient_atom(rest, BinaryOp::floor_mod, c);
}

std::optional<Division> divide_symbolic(const Bounds& bounds, const Affine& x, const Expr& n, int effort) {
  std::vector<Expr> divisor;
  append_factors(n, divisor);
  Division result;
  result.quotient.lanes = result.remainder.lanes = x.lanes;
  result.remainder.constant = x.constant;
  for (const AffineTerm& t : x.terms) {
    std::vector<Expr> factors;
    append_factors(t.atom, factors);
    bool divisible = true;
    for (const Expr& d : divisor) {
      auto found = std::find_if(factors.begin(), factors.end(), [&](const Expr& f) { return identical(f, d); });
      if (found == factors.end()) {
        divisible = false;
        break;
      }
      factors.erase(found);
    }
    if (!divisible)
      result.remainder.terms.push_back(t);
    else if (factors.empty())
      result.quotient.constant += t.coefficient;
    else if (!add_term(result.quotient, product(std::move(factors)), t.coefficient))
      return std::nullopt;
  }
  Affine room = to_affine(n);
  room.constant -= 1;
  room.lanes = x.lanes;
  if (!add_scaled(room, result.remainder, -1)) return std::nullopt;
  if (!prove_nonnegative(bounds, result.remainder, effort) || !prove_nonnegative(bounds, room, effort))
    return std::nullopt;
  return result;
}

namespace {

/// k * n * (x // n) + k * (x % n) is k * x for a symbolic n > 0 as well.
bool recombine_symbolic(const Bounds& bounds, Affine& a) {
  for (const AffineTerm& t : a.terms) {
    auto* m = t.atom.as<Binary>();
    if (!m || m->op != BinaryOp::floor_mod || as_int(m->b)) continue;
    const Expr n = m->b->dtype.lanes == 1 ? m->b : scalar_of(m->b);
    if (!n) continue;
    Interval divisor = bounds.interval(n);
    if (!divisor.min || *divisor.min < 1) continue;
    const Expr quotient = Binary::make(BinaryOp::floor_div, m->a, m->b);
    std::vector<Expr> ways;  // a product of vectors is an atom as it stands
    if (t.atom->dtype.lanes == 1) {
      std::vector<Expr> factors{quotient};
      append_factors(n, factors);
      ways.push_back(product(std::move(factors)));
    } else {
      ways = {Binary::make(BinaryOp::mul, quotient, m->b), Binary::make(BinaryOp::mul, m->b, quotient)};
    }
    const auto whole =
        std::find_if(ways.begin(), ways.end(), [&](const Expr& way) { return a.coefficient(way) == t.coefficient; });
    if (whole == ways.end()) continue;
    Affine result = a;
    std::int64_t k = t.coefficient;
    if (!add_term(result, t.atom, -k) || !add_term(result, *whole, -k) || !add_scaled(result, to_affine(m->a), k))
      continue;
    a = std::move(result);
    return true;
  }
  return false;
}

/// Do x and y differ by a multiple of c?
bool congruent(const Affine& x, const Affine& y, std::int64_t c) {
  Affine apart = y;
  if (!add_scaled(apart, x, -1) || apart.constant % c != 0) return false;
  return std::all_of(apart.terms.begin(), apart.terms.end(),
                     [c](const AffineTerm& term) { return term.coefficient % c == 0; });
}

/// The number z of which `number` is z // c, found by a part of it: y // c + m is (y + c*m) // c. Among such parts, the
/// first for which z and x differ by a multiple of c.
std::optional<Affine> undivided(const Affine& number, std::int64_t c, const Affine& x) {
  for (const AffineTerm& part : number.terms) {
    const std::int64_t* divisor = nullptr;
    auto* d = part.coefficient == 1 ? division_atom(part.atom, BinaryOp::floor_div, &divisor) : nullptr;
    if (!d || *divisor != c) continue;
    Affine shift = number, y = to_affine(d->a);
    if (add_term(shift, part.atom, -1) && add_scaled(y, shift, c) && congruent(x, y, c)) return y;
  }
  return std::nullopt;
}

/// A term `coefficient` * (z // c) of a sum, where z is x and a multiple of c: x % c is z % c then. The remainder's
/// coefficients were taken modulo c, the quotient's were not; and it may have been divided in two steps. Puts z into
/// `x` and the quotient's atom into `quotient`.
bool congruent_quotient(const Affine& sum, std::int64_t c, std::int64_t coefficient, Affine* x, Affine* quotient) {
  for (const AffineTerm& t : sum.terms) {
    const std::int64_t* divisor = nullptr;
    auto* d = t.coefficient == coefficient ? division_atom(t.atom, BinaryOp::floor_div, &divisor) : nullptr;
    if (!d || c % *divisor != 0) continue;
    const Affine number = to_affine(d->a);
    std::optional<Affine> z = *divisor == c ? std::optional(number) : undivided(number, c / *divisor, *x);
    if (!z || !congruent(*x, *z, c)) continue;
    *x = std::move(*z);
    *quotient = Affine::atom(t.atom);
    return true;
  }
  return false;
}

/// The same of a term `coefficient` * (z // (c * d)), where x is z // d, found by a part of it, and a multiple of c.
/// Puts z // d into `x`.
bool quotient_of_quotient(const Affine& sum, std::int64_t c, std::int64_t coefficient, Affine* x, Affine* quotient) {
  for (const AffineTerm& t : sum.terms) {
    const std::int64_t* divisor = nullptr;
    auto* d = t.coefficient == coefficient ? division_atom(t.atom, BinaryOp::floor_div, &divisor) : nullptr;
    if (!d || *divisor <= c || *divisor % c != 0) continue;
    Affine apart = to_affine(d->a);
    const std::optional<Affine> z = undivided(*x, *divisor / c, apart);
    if (!z || !congruent(apart, *z, *divisor) || !add_scaled(apart, *z, -1)) continue;
    apart.constant /= *divisor / c;
    for (AffineTerm& term : apart.terms) term.coefficient /= *divisor / c;
    Affine whole = *x;
    if (!add_scaled(whole, apart, 1)) continue;
    *x = std::move(whole);
    *quotient = Affine::atom(t.atom);
    return true;
  }
  return false;
}

/// The same of a term `coefficient` * (z // c % n), where with x % c it makes z % (c * n). Puts that into `x`.
bool congruent_digit(const Bounds& bounds, const Affine& sum, std::int64_t c, std::int64_t coefficient, int effort,
                     Affine* x, Affine* digit) {
  for (const AffineTerm& t : sum.terms) {
    const std::int64_t* n = nullptr;
    auto* m = t.coefficient == coefficient ? division_atom(t.atom, BinaryOp::floor_mod, &n) : nullptr;
    std::int64_t both;
    if (!m || __builtin_mul_overflow(c, *n, &both)) continue;
    const auto z = undivided(to_affine(m->a), c, *x);
    if (!z) continue;
    *x = remainder(bounds, *z, both, effort);
    *digit = Affine::atom(t.atom);
    return true;
  }
  return false;
}

}  // namespace

void recombine(const Bounds& bounds, Affine& a, int effort) {
  while (a.terms.size() > 1 && recombine_symbolic(bounds, a)) {
  }
  for (size_t i = 0; i < a.terms.size(); ++i) {
    const std::int64_t* c = nullptr;
    auto* m = division_atom(a.terms[i].atom, BinaryOp::floor_mod, &c);
    if (!m || a.terms.size() < 2) continue;
    Affine x = to_affine(m->a);
    Affine quotient = divide(bounds, x, *c, effort);
    std::int64_t k = a.terms[i].coefficient, wanted;
    if (__builtin_mul_overflow(k, *c, &wanted)) continue;
    const bool whole = quotient.terms.size() == 1 && quotient.terms[0].coefficient == 1 && quotient.constant == 0;
    if (!whole || a.coefficient(quotient.terms[0].atom) != wanted) {
      if (!congruent_quotient(a, *c, wanted, &x, &quotient) && !quotient_of_quotient(a, *c, wanted, &x, &quotient) &&
          !congruent_digit(bounds, a, *c, wanted, effort, &x, &quotient))
        continue;
    }
    Affine result = a;
    if (!add_term(result, a.terms[i].atom, -k) || !add_term(result, quotient.terms[0].atom, -wanted)) continue;
    if (!add_scaled(result, x, k)) continue;
    a = std::move(result);
    i = static_cast<size_t>(-1);  // start again: the sum may combine further
  }
}

}  // namespace lathe
