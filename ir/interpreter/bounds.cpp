#include "ir/interpreter/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace lathe::interpreter {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Precision {
  double unit;      ///< half an ULP of 1
  double least;     ///< the least positive value
  double greatest;  ///< the greatest finite one
};

Precision precision(DType dtype) {
  if (dtype.bits == 64) return {0x1p-53, 0x1p-1074, std::numeric_limits<double>::max()};
  if (dtype.bits == 32) return {0x1p-24, 0x1p-149, std::numeric_limits<float>::max()};
  if (dtype.code == TypeCode::brain) return {0x1p-8, 0x1p-133, 0x1.fep127};
  return {0x1p-11, 0x1p-24, 65504};
}

/// Library functions are within 4 ULP, and an ULP is at most two units.
constexpr double function_units = 8;
/// exact is itself rounded as f64; and products of (1 + u) are taken to first order.
constexpr double slack = 1.01;

double distance(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) ? 0 : std::abs(a - b);
}

/// `exact` with an error that came in, and one rounding of `units` on top.
Tracked rounded(DType dtype, double exact, double radius, double units) {
  const Precision p = precision(dtype);
  if (std::isnan(radius)) radius = infinity;
  if (units > 0) radius += slack * units * p.unit * (std::abs(exact) + radius) + units * p.least;
  if (dtype.bits == 64) radius += 4 * p.unit * std::abs(exact);
  if (std::isfinite(exact) && std::abs(exact) + radius > p.greatest) radius = infinity;
  return {exact, radius, std::abs(exact) + radius, 1};
}

/// A result that is NaN or infinite: certain when nothing uncertain led to it.
Tracked special(double exact, bool certain) {
  return {exact, certain ? 0 : infinity, 0, 1};
}

bool is_certain(double exact, double radius) {
  return radius == 0 || (!std::isfinite(exact) && radius < infinity);
}

bool is_certain_nan(double exact, double radius) {
  return std::isnan(exact) && radius < infinity;
}

/// Is it known whether this is NaN, infinite, zero, positive or negative?
bool is_settled(double exact, double radius) {
  return is_certain(exact, radius) || std::abs(exact) > radius;
}

/// A sum that is NaN or infinite. A finite term changes nothing, unless it is large enough for the finite ones to
/// overflow together.
Tracked special_sum(DType dtype, double exact, const Tracked& a, const Tracked& b) {
  const double ra = total_radius(dtype, a), rb = total_radius(dtype, b);
  const auto finite = [](const Tracked& t) { return std::isfinite(t.magnitude) ? t.magnitude : 0.0; };
  const double magnitude = finite(a) + finite(b);
  const bool overflows = std::isfinite(a.exact) && std::isfinite(b.exact);
  const bool certain =
      is_certain_nan(a.exact, ra) || is_certain_nan(b.exact, rb) ||
      (overflows ? ra == 0 && rb == 0 : ra < infinity && rb < infinity && magnitude <= precision(dtype).greatest);
  return {exact, certain ? 0 : infinity, magnitude, 1};
}

double apply(UnaryOp op, double x) {
  const Cell in{.d = x};
  Cell out;
  unary_kernel(op, f64, true)(&out, &in, 1);
  return out.d;
}

double apply(BinaryOp op, double x, double y) {
  const Cell a{.d = x}, b{.d = y};
  Cell out;
  binary_kernel(op, f64, true)(&out, &a, &b, 1);
  return out.d;
}

/// The greatest distance from f(a) over [a - r, a + r], for f monotonic there.
double spread(UnaryOp op, double a, double r) {
  if (r == 0) return 0;
  const double middle = apply(op, a);
  const double below = distance(apply(op, a - r), middle), above = distance(apply(op, a + r), middle);
  // Beyond the domain, as of atanh next to 1, anything may come out.
  return std::isnan(below) || std::isnan(above) ? infinity : std::max(below, above);
}

/// `result` as the product of a and b, which may be products of many factors.
Tracked product(DType dtype, const Tracked& a, const Tracked& b, Tracked result) {
  const Precision p = precision(dtype);
  const double least_normal = p.least / (2 * p.unit);
  const auto small = [](const Tracked& t) { return t.large > 0 ? t.small : std::min(1.0, std::abs(t.exact)); };
  const auto large = [](const Tracked& t) { return t.large > 0 ? t.large : std::max(1.0, std::abs(t.exact)); };
  result.small = small(a) * small(b);
  result.large = large(a) * large(b);
  // A partial product below the normal range is off by its last place, and later factors enlarge that.
  if (result.small < least_normal) result.radius += 2 * p.least * result.large;
  if (!(result.large <= p.greatest)) result.radius = infinity;
  return result;
}

bool is_exact_op(UnaryOp op) {
  return op == UnaryOp::floor || op == UnaryOp::ceil || op == UnaryOp::trunc || op == UnaryOp::round;
}

double pole_of_tan(double x) {
  return std::floor(x / std::numbers::pi - 0.5);
}

}  // namespace

Tracked exactly(double value) {
  return {value, 0, std::abs(value), 1};
}

double total_radius(DType dtype, const Tracked& t) {
  if (t.count <= 1) return t.radius;
  const Precision p = precision(dtype);
  const double reach = t.magnitude + t.radius;
  if (!(reach <= p.greatest)) return infinity;
  const double units = t.count * (dtype.bits == 64 ? 2 : 1);
  return t.radius + slack * units * p.unit * reach + t.count * p.least;
}

Tracked track(UnaryOp op, DType dtype, const Tracked& a) {
  if (op == UnaryOp::neg) return {-a.exact, a.radius, a.magnitude, a.count};
  const double r = total_radius(dtype, a), x = a.exact;
  if (r == infinity) return special(x, false);
  const double result = apply(op, x);
  if (op == UnaryOp::abs) return rounded(dtype, result, r, 0);
  if (!std::isfinite(result)) {
    // Well outside the domain a small error changes nothing.
    const bool all_nan = std::isnan(result) && std::isnan(apply(op, x - r)) && std::isnan(apply(op, x + r));
    return special(result, all_nan || is_certain(x, r));
  }
  if (is_exact_op(op)) return rounded(dtype, result, spread(op, x, r), 0);
  double change = 0;
  switch (op) {
    case UnaryOp::sin:
    case UnaryOp::cos:
      change = std::min(r, 2.0);
      break;
    case UnaryOp::tan:
      change = pole_of_tan(x - r) == pole_of_tan(x + r) ? spread(op, x, r) : infinity;
      break;
    case UnaryOp::cosh:
      change = std::max(spread(op, x, r), std::abs(x) <= r ? result - 1 : 0.0);
      break;
    default:
      change = spread(op, x, r);
      break;
  }
  return rounded(dtype, result, change, op == UnaryOp::sqrt ? 1 : function_units);
}

Tracked track(BinaryOp op, DType dtype, const Tracked& a, const Tracked& b) {
  const double x = a.exact, y = b.exact;
  const double result = apply(op, x, y);
  if (op == BinaryOp::add || op == BinaryOp::sub) {
    if (!std::isfinite(result)) return special_sum(dtype, result, a, b);
    return {result, a.radius + b.radius, a.magnitude + b.magnitude, a.count + b.count};
  }
  const double ra = total_radius(dtype, a), rb = total_radius(dtype, b);
  const bool passes_nan = op == BinaryOp::mul || op == BinaryOp::div || op == BinaryOp::min || op == BinaryOp::max;
  if (passes_nan && (is_certain_nan(x, ra) || is_certain_nan(y, rb))) return special(result, true);
  if (ra == infinity || rb == infinity) return special(result, false);
  if (!std::isfinite(result)) {
    const bool by_signs = (op == BinaryOp::mul && !(std::isfinite(x) && std::isfinite(y))) ||
                          (op == BinaryOp::div && (std::isinf(x) || (y == 0 && rb == 0)));
    if (by_signs) return special(result, is_settled(x, ra) && is_settled(y, rb));
    return special(result, is_certain(x, ra) && is_certain(y, rb));
  }
  const double ax = std::abs(x), ay = std::abs(y);
  switch (op) {
    case BinaryOp::mul:
      if (!std::isfinite(x) || !std::isfinite(y)) return special(result, ra == 0 && rb == 0);
      return product(dtype, a, b, rounded(dtype, result, ax * rb + ay * ra + ra * rb, 1));
    case BinaryOp::div: {
      if (ay <= rb) return special(result, false);
      if (std::isinf(y)) return rounded(dtype, result, 0, 0);
      return rounded(dtype, result, (ra + std::abs(result) * rb) / (ay - rb), 1);
    }
    case BinaryOp::min:
    case BinaryOp::max:
      return rounded(dtype, result, std::max(ra, rb), 0);
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod: {
      if (ra != 0 || rb != 0) {
        // Any quotient of the ranges must have the same floor.
        const double floors[] = {std::floor((x - ra) / (y - rb)), std::floor((x - ra) / (y + rb)),
                                 std::floor((x + ra) / (y - rb)), std::floor((x + ra) / (y + rb))};
        if (ay <= rb || *std::min_element(floors, floors + 4) != *std::max_element(floors, floors + 4)) {
          return special(result, false);
        }
      }
      const double change = op == BinaryOp::floor_div ? 0 : ra + std::abs(std::floor(x / y)) * rb;
      return rounded(dtype, result, change, 1);
    }
    case BinaryOp::pow: {
      if (ra == 0 && rb == 0) return rounded(dtype, result, 0, function_units);
      if (x <= ra) return special(result, false);
      double change = 0;
      for (const double p : {x - ra, x + ra}) {
        for (const double q : {y - rb, y + rb}) change = std::max(change, distance(std::pow(p, q), result));
      }
      return rounded(dtype, result, change, function_units);
    }
    case BinaryOp::atan2: {
      if (ra == 0 && rb == 0) return rounded(dtype, result, 0, function_units);
      const double away = std::hypot(x, y) - ra - rb;
      // Near the origin there is no bound, nor across the cut along the negative axis.
      if (away <= 0 || (ax <= ra && y < rb)) return special(result, false);
      return rounded(dtype, result, (ra + rb) / away, function_units);
    }
    case BinaryOp::hypot:
      return rounded(dtype, result, ra + rb, function_units);
    case BinaryOp::copysign:
      return ay <= rb && rb > 0 ? special(result, false) : rounded(dtype, result, ra, 0);
    // The exact neighbour is f64's; the dtype's lies an ULP away.
    case BinaryOp::nextafter:
      return rounded(dtype, x, ra, 4);
    default:
      return special(result, false);
  }
}

Tracked track_fma(DType dtype, const Tracked& a, const Tracked& b, const Tracked& c) {
  return track(BinaryOp::add, dtype, track(BinaryOp::mul, dtype, a, b), c);
}

Tracked track_cast(DType to, DType from, const Tracked& a) {
  const double r = total_radius(from, a);
  if (!std::isfinite(a.exact)) return special(a.exact, r < infinity);
  const bool widens = precision(to).unit <= precision(from).unit && precision(to).greatest >= precision(from).greatest;
  // A value that the narrower type holds is not rounded.
  return rounded(to, a.exact, r, widens || (r == 0 && round_to(to, a.exact) == a.exact) ? 0 : 1);
}

Tracked track_cast(DType to, double integer) {
  return rounded(to, integer, 0, round_to(to, integer) == integer ? 0 : 1);
}

}  // namespace lathe::interpreter
