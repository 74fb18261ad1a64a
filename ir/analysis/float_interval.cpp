#include "ir/analysis/float_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/analysis/fold.h"
#include "ir/analysis/simplify_expr.h"

namespace lathe {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Binary digits of the significand, and the largest finite value.
int digits(DType dtype) {
  if (dtype.bits == 64) return 53;
  if (dtype.bits == 32) return 24;
  return dtype.code == TypeCode::brain ? 8 : 11;
}
double largest(DType dtype) {
  if (dtype.bits == 64) return std::numeric_limits<double>::max();
  if (dtype.bits == 32) return std::numeric_limits<float>::max();
  return dtype.code == TypeCode::brain ? 3.38953139e38 : 65504.0;
}
double smallest(DType dtype) {
  if (dtype.bits == 64) return std::numeric_limits<double>::denorm_min();
  return dtype.bits == 32 || dtype.code == TypeCode::brain ? std::ldexp(1.0, -149) * (dtype.bits == 32 ? 1 : 65536.0)
                                                           : std::ldexp(1.0, -24);
}

/// The exponent of the lowest set bit; 0's is above all.
int lowest_bit(double value) {
  if (value == 0) return 2000;
  int exponent;
  double fraction = std::frexp(value, &exponent);
  auto whole = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  return exponent - 53 + __builtin_ctzll(static_cast<std::uint64_t>(whole < 0 ? -whole : whole));
}

/// The values of a form lie on multiples of 2^granularity (when radius is 0).
int granularity(const FloatBound& b) {
  int result = lowest_bit(b.constant);
  for (const auto& t : b.terms) result = std::min(result, lowest_bit(t.coefficient));
  return result;
}

class Query {
 public:
  explicit Query(const Bounds& bounds) : bounds_(bounds) {}

  FloatBound of(const Expr& e) {
    if (++steps_ > most_steps) return FloatBound::unknown();
    DType dtype = e->dtype.element();
    if (const double* value = as_float(e)) return constant(*value);
    if (auto* v = e.as<Var>()) {
      const Expr* value = bounds_.value(v);
      return value ? of(*value) : FloatBound::unknown();
    }
    if (auto* b = e.as<Broadcast>()) return of(b->value);
    if (auto* c = e.as<Cast>()) {
      if (c->value->dtype.is_float()) return rounded(of(c->value), dtype);
      return from_integer(c->value, dtype);
    }
    if (auto* u = e.as<Unary>()) return unary(u, dtype);
    if (auto* b = e.as<Binary>()) return binary(b, dtype);
    if (auto* s = e.as<Select>()) return hull(of(s->when_true), of(s->when_false));
    return FloatBound::unknown();
  }

 private:
  static constexpr int most_steps = 100;

  static FloatBound constant(double value) {
    FloatBound b;
    b.low = value;
    b.high = value;
    b.may_be_nan = std::isnan(value);
    b.has_form = std::isfinite(value);
    b.constant = value;
    if (b.may_be_nan) return FloatBound::unknown();
    return b;
  }

  static FloatBound hull(const FloatBound& a, const FloatBound& b) {
    FloatBound r = FloatBound::unknown();
    r.low = std::min(a.low, b.low);
    r.high = std::max(a.high, b.high);
    r.may_be_nan = a.may_be_nan || b.may_be_nan;
    return r;
  }

  /// After an operation whose real result `b` describes: adds the rounding to `dtype` where the result is not exact.
  FloatBound rounded(FloatBound b, DType dtype) const {
    b.low = round_to(dtype, b.low);
    b.high = round_to(dtype, b.high);
    double most = std::max(std::fabs(b.low), std::fabs(b.high));
    if (!b.has_form) return b;
    if (!(most <= largest(dtype))) {
      b.has_form = false;
      return b;
    }
    bool exact = b.radius == 0 && (most == 0 || std::ilogb(most) + 1 - granularity(b) <= digits(dtype)) &&
                 granularity(b) >= std::ilogb(smallest(dtype));
    if (!exact)
      b.radius = (b.radius + most * std::ldexp(1.0, -digits(dtype)) + smallest(dtype)) * (1 + std::ldexp(1.0, -40));
    return b;
  }

  FloatBound from_integer(const Expr& value, DType dtype) const {
    FloatBound b = FloatBound::unknown();
    b.may_be_nan = false;
    Affine a = value->dtype.element() == i64 ? to_affine(value) : Affine::atom(value);
    Interval known = value->dtype.element() == i64 ? bounds_.interval(a) : bounds_.interval(value);
    bool is_u64 = value->dtype.is_unsigned() && value->dtype.bits == 64;
    if (!known.min || !known.max || (is_u64 && *known.min < 0)) return b;
    b.low = static_cast<double>(*known.min);
    b.high = static_cast<double>(*known.max);
    b.has_form = value->dtype.element() == i64 && std::max(std::fabs(b.low), std::fabs(b.high)) <= 0x1p53 &&
                 !may_wrap(bounds_, a);
    if (value->dtype.lanes > 1) {
      b.has_form = false;
      return rounded(std::move(b), dtype);
    }
    if (value->dtype.element() != i64) {
      b.has_form = value->dtype.is_integer() || value->dtype.is_bool();
      Expr wide = Cast::make(i64, value);
      b.terms.push_back({wide, 1});
      return rounded(std::move(b), dtype);
    }
    for (const AffineTerm& t : a.terms) b.terms.push_back({t.atom, static_cast<double>(t.coefficient)});
    b.constant = static_cast<double>(a.constant);
    for (const AffineTerm& t : a.terms) b.has_form &= std::abs(t.coefficient) <= (std::int64_t{1} << 53);
    b.has_form &= std::abs(a.constant) <= (std::int64_t{1} << 53);
    return rounded(std::move(b), dtype);
  }

  FloatBound add(const FloatBound& a, const FloatBound& b, double sign, DType dtype) const {
    FloatBound r = FloatBound::unknown();
    double low = sign > 0 ? b.low : -b.high, high = sign > 0 ? b.high : -b.low;
    r.may_be_nan = a.may_be_nan || b.may_be_nan || (a.high == infinity && low == -infinity) ||
                   (a.low == -infinity && high == infinity);
    r.low = a.low + low;
    r.high = a.high + high;
    if (std::isnan(r.low)) r.low = -infinity;
    if (std::isnan(r.high)) r.high = infinity;
    r.has_form = a.has_form && b.has_form;
    if (r.has_form) {
      r.terms = a.terms;
      r.constant = a.constant + sign * b.constant;
      bool exact = r.constant - a.constant == sign * b.constant && r.constant - sign * b.constant == a.constant;
      for (const auto& t : b.terms) exact &= add_term(r, t.atom, sign * t.coefficient);
      r.radius = a.radius + b.radius;
      if (!exact) r.has_form = false;
    }
    return rounded(std::move(r), dtype);
  }

  static bool add_term(FloatBound& b, const Expr& atom, double coefficient) {
    for (size_t i = 0; i < b.terms.size(); ++i) {
      if (!identical(b.terms[i].atom, atom)) continue;
      double sum = b.terms[i].coefficient + coefficient;
      bool exact = sum - coefficient == b.terms[i].coefficient && sum - b.terms[i].coefficient == coefficient;
      b.terms[i].coefficient = sum;
      if (sum == 0) b.terms.erase(b.terms.begin() + i);
      return exact;
    }
    b.terms.push_back({atom, coefficient});
    return true;
  }

  /// a * factor, whose form is kept where its coefficients are exact.
  FloatBound scale(const FloatBound& a, double factor, DType dtype) const {
    FloatBound r = a;
    if (factor == 0 && (!std::isfinite(a.low) || !std::isfinite(a.high))) return FloatBound::unknown();
    r.low = (factor > 0 ? a.low : a.high) * factor;
    r.high = (factor > 0 ? a.high : a.low) * factor;
    if (r.has_form) {
      bool exact = true;
      auto times = [&](double& x) {
        double product = x * factor;
        exact &= std::fma(x, factor, -product) == 0;
        x = product;
      };
      for (auto& t : r.terms) times(t.coefficient);
      times(r.constant);
      r.radius = a.radius * std::fabs(factor);
      r.has_form = exact;
      std::erase_if(r.terms, [](const FloatBound::Term& t) { return t.coefficient == 0; });
    }
    return rounded(std::move(r), dtype);
  }

  FloatBound product(const FloatBound& a, const FloatBound& b, DType dtype) const {
    FloatBound r = FloatBound::unknown();
    bool finite = std::isfinite(a.low) && std::isfinite(a.high) && std::isfinite(b.low) && std::isfinite(b.high);
    if (!finite) return r;
    r.may_be_nan = a.may_be_nan || b.may_be_nan;
    double ends[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    r.low = *std::min_element(ends, ends + 4);
    r.high = *std::max_element(ends, ends + 4);
    return rounded(std::move(r), dtype);
  }

  FloatBound quotient(const FloatBound& a, const FloatBound& b, DType dtype) const {
    FloatBound r = FloatBound::unknown();
    bool finite = std::isfinite(a.low) && std::isfinite(a.high) && std::isfinite(b.low) && std::isfinite(b.high);
    if (!finite || (b.low <= 0 && b.high >= 0)) return r;
    r.may_be_nan = a.may_be_nan || b.may_be_nan;
    double ends[] = {a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high};
    r.low = *std::min_element(ends, ends + 4);
    r.high = *std::max_element(ends, ends + 4);
    double c = b.low;
    int exponent;
    if (b.low == b.high && std::fabs(std::frexp(c, &exponent)) == 0.5) return scale(a, 1 / c, dtype);
    if (b.low == b.high && a.has_form) {
      // Coefficients are rounded to double: far below the rounding of the result.
      r.has_form = true;
      r.terms = a.terms;
      for (auto& t : r.terms) t.coefficient /= c;
      r.constant = a.constant / c;
      double most = 0;
      for (const auto& t : r.terms) {
        Interval known = bounds_.interval(t.atom);
        if (!known.min || !known.max) return r.has_form = false, rounded(std::move(r), dtype);
        most += std::fabs(t.coefficient) * std::max(std::fabs(double(*known.min)), std::fabs(double(*known.max)));
      }
      r.radius = a.radius / std::fabs(c) + (most + std::fabs(r.constant)) * 0x1p-50;
      if (r.radius == 0) r.radius = std::numeric_limits<double>::denorm_min();
    }
    return rounded(std::move(r), dtype);
  }

  FloatBound binary(const Binary* b, DType dtype) {
    FloatBound x = of(b->a), y = of(b->b);
    auto is_constant = [](const FloatBound& f) { return f.has_form && f.terms.empty() && f.radius == 0; };
    switch (b->op) {
      case BinaryOp::add:
        return add(x, y, 1, dtype);
      case BinaryOp::sub:
        return add(x, y, -1, dtype);
      case BinaryOp::mul:
        if (is_constant(y)) return scale(x, y.constant, dtype);
        if (is_constant(x)) return scale(y, x.constant, dtype);
        return product(x, y, dtype);
      case BinaryOp::div:
        return quotient(x, y, dtype);
      case BinaryOp::min:
      case BinaryOp::max: {
        bool least = b->op == BinaryOp::min;
        bool may_be_nan = x.may_be_nan || y.may_be_nan;
        if (!may_be_nan && x.high < y.low) return least ? x : y;
        if (!may_be_nan && y.high < x.low) return least ? y : x;
        FloatBound r = FloatBound::unknown();
        r.may_be_nan = may_be_nan;
        r.low = least ? std::min(x.low, y.low) : std::max(x.low, y.low);
        r.high = least ? std::min(x.high, y.high) : std::max(x.high, y.high);
        return r;
      }
      default:
        return FloatBound::unknown();
    }
  }

  FloatBound unary(const Unary* u, DType dtype) {
    FloatBound x = of(u->a);
    auto monotone = [&](double (*f)(double)) {
      FloatBound r = FloatBound::unknown();
      r.may_be_nan = x.may_be_nan;
      r.low = f(x.low);
      r.high = f(x.high);
      return r;
    };
    switch (u->op) {
      case UnaryOp::neg:
        return scale(x, -1, dtype);
      case UnaryOp::abs:
        if (x.low >= 0 && !x.may_be_nan) return x;
        if (x.high <= 0 && !x.may_be_nan) return scale(x, -1, dtype);
        {
          FloatBound r = monotone([](double v) { return std::fabs(v); });
          double most = std::max(r.low, r.high);
          r.low = x.low > 0 ? x.low : x.high < 0 ? -x.high : 0;
          r.high = most;
          return r;
        }
      case UnaryOp::sqrt: {
        FloatBound r = FloatBound::unknown();
        r.may_be_nan = x.may_be_nan || x.low < 0;
        r.low = x.low > 0 ? round_to(dtype, std::sqrt(x.low)) : -0.0;
        r.high = x.high > 0 ? round_to(dtype, std::sqrt(x.high)) : 0;
        return r;
      }
      case UnaryOp::floor:
        return whole(x, monotone([](double v) { return std::floor(v); }), 0);
      case UnaryOp::ceil:
        return whole(x, monotone([](double v) { return std::ceil(v); }), 1);
      case UnaryOp::trunc:
        if (x.low >= 0) return whole(x, monotone([](double v) { return std::floor(v); }), 0);
        if (x.high <= 0) return whole(x, monotone([](double v) { return std::ceil(v); }), 1);
        return exact_whole(x) ? x : monotone([](double v) { return std::trunc(v); });
      case UnaryOp::round:
        return exact_whole(x) ? x : monotone([](double v) { return std::nearbyint(v); });
      default:
        return FloatBound::unknown();
    }
  }

  static bool exact_whole(const FloatBound& x) { return x.has_form && x.radius == 0 && granularity(x) >= 0; }

  /// floor (up = 0) or ceil (up = 1) of x, whose constant bounds are in `r`.
  FloatBound whole(const FloatBound& x, FloatBound r, int up) const {
    if (!x.has_form) return r;
    if (exact_whole(x)) return x;
    auto sign = [&](double v) { return up ? -v : v; };
    // ceil(x) = -floor(-x).
    int fine = granularity(x);
    constexpr int finest = 30;
    bool grid = fine < 0 && fine >= -finest;
    if (grid || fine >= 0) {
      // x lies within radius of integer / 2^-fine: if no such number comes that near below an integer, floor is exact.
      Affine scaled = Affine::of(0);
      double unit = std::ldexp(1.0, grid ? -fine : 0);
      bool fits = true;
      auto integer = [&](double v) {
        double s = sign(v) * unit;
        fits &= std::fabs(s) < 0x1p52;
        return fits ? static_cast<std::int64_t>(s) : 0;
      };
      for (const auto& t : x.terms) scaled.terms.push_back({t.atom, integer(t.coefficient)});
      scaled.constant = integer(x.constant);
      if (fits) {
        auto denominator = static_cast<std::int64_t>(unit);
        Interval known = bounds_.interval(scaled);
        std::int64_t step = known.multiple_of == 0 ? denominator : std::gcd(known.multiple_of, denominator);
        std::int64_t least = ((known.remainder % step) + step) % step;
        double near = x.radius * unit;
        bool decided =
            x.radius == 0 || (static_cast<double>(least) >= near && static_cast<double>(step - least) > near);
        if (decided) {
          Affine quotient = divide(bounds_, scaled, denominator, quick_effort);
          r.has_form = true;
          r.radius = 0;
          r.terms.clear();
          for (const AffineTerm& t : quotient.terms)
            r.terms.push_back({t.atom, sign(static_cast<double>(t.coefficient))});
          r.constant = sign(static_cast<double>(quotient.constant));
          return r;
        }
      }
    }
    // floor(x) lies in (x - 1, x].
    r.has_form = true;
    r.terms = x.terms;
    r.constant = x.constant + (up ? 0.5 : -0.5);
    r.radius = (x.radius + 0.5) * (1 + 0x1p-40) + std::fabs(r.constant) * 0x1p-52;
    return r;
  }

  const Bounds& bounds_;
  int steps_ = 0;
};

/// sum + constant +- radius as integers: the floor of the lower or upper end of the real form.
std::optional<Affine> integer_end(const FloatBound& b, const Bounds& bounds, bool high) {
  // Coefficients that are no multiple of 2^-20 are rounded to it; the error goes to the constant.
  constexpr std::int64_t unit = 1 << 20;
  Affine scaled = Affine::of(0);
  double error = b.radius * unit * (1 + 0x1p-40);
  for (const FloatBound::Term& t : b.terms) {
    double wanted = t.coefficient * unit, given = std::nearbyint(wanted);
    if (std::fabs(given) > 0x1p50) return std::nullopt;
    if (given != wanted) {
      Interval known = bounds.interval(t.atom);
      if (!known.min || !known.max) return std::nullopt;
      error += std::fabs(given - wanted) * std::max(std::fabs(double(*known.min)), std::fabs(double(*known.max))) *
               (1 + 0x1p-40);
    }
    if (!lathe::add_term(scaled, t.atom, static_cast<std::int64_t>(given))) return std::nullopt;
  }
  double end = b.constant * unit + (high ? error : -error);
  end = high ? std::ceil(end) : std::floor(end);
  if (std::fabs(end) > 0x1p50) return std::nullopt;
  scaled.constant = static_cast<std::int64_t>(end);
  return divide(bounds, scaled, unit, quick_effort);
}

}  // namespace

FloatBound FloatBound::unknown() {
  FloatBound b;
  b.low = -infinity;
  b.high = infinity;
  return b;
}

FloatBound float_bound(const Expr& e, const Bounds& bounds) {
  return Query(bounds).of(e);
}

namespace {

/// Can every value be converted: no NaN, and inside the type?
bool convertible(const FloatBound& b, DType to) {
  if (b.may_be_nan || !to.is_integer()) return false;
  double low = to.is_unsigned() ? -1 : -std::ldexp(1.0, to.bits - 1) - (to.bits < 53 ? 1 : 0);
  double high = std::ldexp(1.0, to.is_unsigned() ? to.bits : to.bits - 1);
  constexpr double safe = 0x1p52;
  return b.low > std::max(low, -safe) && b.high < std::min(high, safe);
}

}  // namespace

Interval integer_interval(const Cast& cast, const Bounds& bounds) {
  DType to = cast.dtype.element();
  if (!bounds.float_intervals()) return Interval::of(to);
  FloatBound b = float_bound(cast.value, bounds);
  if (!convertible(b, to)) return Interval::of(to);
  return Interval::between(static_cast<std::int64_t>(b.low), static_cast<std::int64_t>(b.high));
}

std::optional<IntegerForms> integer_forms(const Cast& cast, const Bounds& bounds) {
  if (!bounds.float_intervals()) return std::nullopt;
  FloatBound b = float_bound(cast.value, bounds);
  if (!b.has_form || !convertible(b, cast.dtype.element())) return std::nullopt;
  IntegerForms forms;
  if (b.radius == 0 && granularity(b) >= 0) {
    Affine value = Affine::of(static_cast<std::int64_t>(b.constant));
    for (const FloatBound::Term& t : b.terms)
      if (!add_term(value, t.atom, static_cast<std::int64_t>(t.coefficient))) return std::nullopt;
    forms.low = forms.high = value;
    forms.exact = true;
    return forms;
  }
  // Truncation is floor from 0 up; below, it is at most one above floor.
  auto low = integer_end(b, bounds, false), high = integer_end(b, bounds, true);
  if (!low || !high) return std::nullopt;
  if (b.low < 0) high->constant += 1;
  forms.low = *low;
  forms.high = *high;
  return forms;
}

}  // namespace lathe
