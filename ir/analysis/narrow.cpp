#include "ir/analysis/narrow.h"

#include <limits>

#include "ir/analysis/float_interval.h"
#include "ir/analysis/fold.h"

namespace lathe {
namespace {

/// What each lane is, where all are the same; null where not.
Expr uniform_value(const Expr& e) {
  return e->dtype.is_scalar() ? e : scalar_of(e);
}

const Cast* cast_of_float(const Expr& e) {
  const Cast* cast = e.as<Cast>();
  return cast && cast->value->dtype.is_float() ? cast : nullptr;
}

}  // namespace

Interval lanes_interval(const Expr& e, const Bounds& bounds) {
  if (const Ramp* ramp = e.as<Ramp>())
    return bounds.interval(ramp->base) +
           bounds.interval(ramp->stride) * Interval::between(0, std::int64_t{e->dtype.lanes} - 1);
  if (const Expr value = uniform_value(e)) return bounds.interval(value);
  if (const Cast* rounded = cast_of_float(e)) return integer_interval(*rounded, bounds);
  const Binary* node = e.as<Binary>();
  if (!node) return Interval::everything();
  const Interval a = lanes_interval(node->a, bounds), b = lanes_interval(node->b, bounds);
  switch (node->op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::floor_div:
      return floor_div(a, b);
    case BinaryOp::min:
      return min(a, b);
    case BinaryOp::floor_mod:
      return floor_mod(a, b);
    case BinaryOp::max:
      return max(a, b);
    default:
      return Interval::everything();
  }
}

bool fits_i32(const Expr& e, const Bounds& bounds) {
  const Interval interval = lanes_interval(e, bounds);
  const bool fits = interval.min && interval.max && *interval.min >= std::numeric_limits<std::int32_t>::min() &&
                    *interval.max <= std::numeric_limits<std::int32_t>::max();
  const Binary* node = uniform_value(e) ? nullptr : e.as<Binary>();
  return fits && (!node || (fits_i32(node->a, bounds) && fits_i32(node->b, bounds)));
}

Expr narrow_to_i32(const Expr& e, const Bounds& bounds) {
  if (!fits_i32(e, bounds)) return nullptr;
  if (const Expr value = uniform_value(e)) {
    if (const std::int64_t* known = as_int(value)) return constant(i32.with_lanes(e->dtype.lanes), *known);
    const Expr narrow = cast(i32, value);
    return e->dtype.is_scalar() ? narrow : Broadcast::make(narrow, e->dtype.lanes);
  }
  if (const Ramp* ramp = e.as<Ramp>())
    return Ramp::make(narrow_to_i32(ramp->base, bounds), narrow_to_i32(ramp->stride, bounds), e->dtype.lanes);
  if (const Cast* rounded = cast_of_float(e)) return Cast::make(i32.with_lanes(e->dtype.lanes), rounded->value);
  const Binary* node = e.as<Binary>();
  if (!node) return nullptr;
  const Expr a = narrow_to_i32(node->a, bounds), b = narrow_to_i32(node->b, bounds);
  return a && b ? Binary::make(node->op, a, b) : nullptr;
}

LaneSum lane_sum(const Expr& e) {
  if (e->dtype.lanes > 1 && scalar_of(e)) return {scalar_of(e), nullptr};
  const Binary* node = e.as<Binary>();
  if (!node || node->op != BinaryOp::add) return {nullptr, e};
  const auto sum = [](const Expr& a, const Expr& b) { return a && b ? a + b : a ? a : b; };
  const LaneSum a = lane_sum(node->a), b = lane_sum(node->b);
  return {sum(a.uniform, b.uniform), sum(a.varying, b.varying)};
}

}  // namespace lathe
