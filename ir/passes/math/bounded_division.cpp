#include "ir/intrinsics.h"
#include "ir/passes/math/functions.h"

namespace lathe::math {
namespace {

/// x // divisor as (x * factor) >> shift.
struct Reciprocal {
  std::int64_t factor;
  int shift;
};

/// That of the smallest shift which is exact for x up to `most` and whose product stays within `limit`; nothing when
/// there is none. The factor is over 2^shift / divisor by error / divisor: the quotient stays under the next integer as
/// long as x * error < 2^shift (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994).
std::optional<Reciprocal> reciprocal_of(std::int64_t divisor, std::int64_t most, std::int64_t limit) {
  for (int shift = 0; shift < 32; ++shift) {
    const std::int64_t power = std::int64_t{1} << shift, factor = (power + divisor - 1) / divisor;
    if (factor * most > limit) return std::nullopt;
    // most * error may not fit.
    if (most == 0 || factor * divisor - power <= (power - 1) / most) return Reciprocal{factor, shift};
  }
  return std::nullopt;
}

}  // namespace

Expr divide_bounded(Builder& b, BinaryOp op, const Expr& x, const Expr& y, const Interval& interval) {
  const DType type = x->dtype;
  const std::int64_t* divisor = as_int(y);
  const bool power_of_two = divisor && (*divisor & (*divisor - 1)) == 0;
  const Interval all = Interval::of(type.element());
  if (!divisor || *divisor < 2 || power_of_two || !interval.min || !interval.max || !all.max || *interval.min < 0)
    return nullptr;
  const auto known = reciprocal_of(*divisor, *interval.max, *all.max);
  if (!known && !type.is_signed()) return nullptr;
  const Expr dividend = b.bind("dividend", x);
  const DType natural{TypeCode::unsigned_integer, type.bits, type.lanes};
  const Expr quotient =
      known ? binary(BinaryOp::shr, dividend * constant(type, known->factor), constant(type, known->shift))
            : cast(type, binary(BinaryOp::floor_div, cast(natural, dividend), constant(natural, *divisor)));
  return b.bind("quotient", op == BinaryOp::floor_div ? quotient : dividend - quotient * y);
}

}  // namespace lathe::math
