#include "ir/analysis/window.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/analysis/float_interval.h"
#include "ir/analysis/fold.h"
#include "ir/node_map.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// The gain of the index as a function of one variable or of the lanes. Floats are rounded by functions that never fall
/// either, each of whose ends is off by half a unit of its last place at the most.
class Gain {
 public:
  using Leaf = std::function<std::optional<std::int64_t>(const Expr&)>;

  /// `leaf` knows what is no arithmetic; nothing where it asks for the operands.
  Gain(Leaf leaf, const Bounds& bounds) : leaf_(std::move(leaf)), bounds_(bounds) {}

  std::optional<std::int64_t> of(const Expr& e) const {
    if (const auto known = leaf_(e)) return known;
    if (e->references.load(std::memory_order_relaxed) == 1) return of_new(e);
    if (const auto* seen = seen_.find(e.get())) return *seen;
    const auto gain = of_new(e);
    seen_.emplace(e.get(), gain);
    return gain;
  }

 private:
  std::optional<std::int64_t> of_new(const Expr& e) const {
    if (const Cast* cast = e.as<Cast>()) return of_cast(*cast);
    const Binary* node = e.as<Binary>();
    if (!node || !(e->dtype.element() == i64)) return std::nullopt;
    const auto a = of(node->a), b = of(node->b);
    if (!a || !b) return std::nullopt;
    const Expr scalar = scalar_of(node->b);
    const std::int64_t* factor = scalar ? as_int(scalar) : nullptr;
    std::int64_t result = 0;
    switch (node->op) {
      case BinaryOp::add:
        return __builtin_add_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
      case BinaryOp::sub:
        return *b == 0 ? a : std::nullopt;
      case BinaryOp::mul:
        if (!factor || *factor < 0 || __builtin_mul_overflow(*a, *factor, &result)) return std::nullopt;
        return result;
      case BinaryOp::floor_div:
        if (!factor || *factor < 1) return std::nullopt;
        return *a / *factor + (*a % *factor == 0 ? 0 : 1);
      case BinaryOp::min:
      case BinaryOp::max:
        return std::max(*a, *b);
      default:
        return std::nullopt;
    }
  }

  static constexpr double most_places = 0x1p31;

  /// A float that fits 32 bits is truncated, to an index or to what becomes one.
  std::optional<std::int64_t> of_cast(const Cast& cast) const {
    const DType to = cast.dtype.element(), from = cast.value->dtype.element();
    if (to == i64 && from == i32) return cast.value.as<Cast>() ? of(cast.value) : std::nullopt;
    if (!from.is_float() || !(to == i64 || to == i32)) return std::nullopt;
    const auto real = of_float(cast.value);
    const FloatBound known = float_bound(cast.value, bounds_);
    const bool fits = !known.may_be_nan && known.low > -most_places && known.high < most_places;
    if (!real || !fits || *real >= most_places) return std::nullopt;
    return static_cast<std::int64_t>(std::ceil(*real));
  }

  std::optional<double> of_float(const Expr& e) const {
    if (const auto known = leaf_(e)) return *known == 0 ? std::optional(0.0) : std::nullopt;
    if (const Cast* cast = e.as<Cast>()) {
      const bool index = cast->value->dtype.element() == i64;
      const auto gain = index ? of(cast->value) : std::nullopt;
      return gain ? with_rounding(e, static_cast<double>(*gain)) : std::nullopt;
    }
    if (const Unary* unary = e.as<Unary>()) {
      const auto a = of_float(unary->a);
      if (!a) return std::nullopt;
      switch (unary->op) {
        case UnaryOp::floor:
        case UnaryOp::ceil:
        case UnaryOp::trunc:
          return std::ceil(*a);
        case UnaryOp::round:
          return std::ceil(*a) + 1;
        default:
          return std::nullopt;
      }
    }
    const Binary* node = e.as<Binary>();
    if (!node) return std::nullopt;
    const auto a = of_float(node->a), b = of_float(node->b);
    if (!a || !b) return std::nullopt;
    const double *left = as_float(node->a), *right = as_float(node->b);
    switch (node->op) {
      case BinaryOp::add:
        return with_rounding(e, *a + *b);
      case BinaryOp::sub:
        return *b == 0 ? with_rounding(e, *a) : std::nullopt;
      case BinaryOp::mul:
        if (right && *right >= 0) return with_rounding(e, *a * *right);
        if (left && *left >= 0) return with_rounding(e, *b * *left);
        return std::nullopt;
      case BinaryOp::div:
        return right && *right > 0 ? with_rounding(e, *a / *right) : std::nullopt;
      case BinaryOp::min:
      case BinaryOp::max:
        return std::max(*a, *b);
      default:
        return std::nullopt;
    }
  }

  std::optional<double> with_rounding(const Expr& e, double gain) const {
    const DType type = e->dtype.element();
    if (!(type == f32 || type == f64)) return std::nullopt;
    const FloatBound known = float_bound(e, bounds_);
    const double most = std::max(std::fabs(known.low), std::fabs(known.high));
    if (known.may_be_nan || !std::isfinite(most)) return std::nullopt;
    // One unit more than both ends are off by, for what is lost here.
    const int digits = type == f32 ? 24 : 53;
    return gain + std::max(most, 1.0) * std::ldexp(2.0, 1 - digits);
  }

  Leaf leaf_;
  const Bounds& bounds_;
  mutable NodeMap<const ExprNode*, std::optional<std::int64_t>> seen_;
};

}  // namespace

std::optional<std::int64_t> greatest_gain(const Expr& index, const VarRef& variable, std::int64_t steps,
                                          const Bounds& bounds) {
  const auto leaf = [&](const Expr& e) -> std::optional<std::int64_t> {
    if (e == Expr(variable)) return steps;
    if (!uses_var(e, variable.get())) return 0;
    return std::nullopt;
  };
  return Gain(leaf, bounds).of(index);
}

std::optional<std::int64_t> greatest_gain(const Expr& vector, const Bounds& bounds) {
  const auto leaf = [&](const Expr& e) -> std::optional<std::int64_t> {
    if (scalar_of(e)) return 0;
    const Ramp* ramp = e.as<Ramp>();
    const std::int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
    std::int64_t result = 0;
    if (!stride || *stride < 0 || __builtin_mul_overflow(*stride, std::int64_t{e->dtype.lanes} - 1, &result))
      return std::nullopt;
    return result;
  };
  return Gain(leaf, bounds).of(vector);
}

Expr first_lane(const Expr& vector) {
  if (const Expr same = scalar_of(vector)) return same;
  if (const Ramp* ramp = vector.as<Ramp>()) return ramp->base;
  if (const Cast* cast = vector.as<Cast>()) {
    const Expr value = first_lane(cast->value);
    return value ? Cast::make(cast->dtype.element(), value) : nullptr;
  }
  if (const Unary* unary = vector.as<Unary>()) {
    const Expr a = first_lane(unary->a);
    return a ? Unary::make(unary->op, a) : nullptr;
  }
  const Binary* node = vector.as<Binary>();
  if (!node) return nullptr;
  const Expr a = first_lane(node->a), b = first_lane(node->b);
  return a && b ? Binary::make(node->op, a, b) : nullptr;
}

}  // namespace lathe
