#include "ir/analysis/exact_floats.h"

#include <cmath>

namespace lathe {
namespace {

/// Chains of choices are short; of what is longer nothing is claimed.
constexpr int most_nested = 8;

/// Does the number need no more bits than bf16 has?
bool is_bf16(double value) {
  int exponent = 0;
  const double digits = std::ldexp(std::frexp(value, &exponent), 8);
  return value == 0 || (std::isfinite(value) && std::trunc(digits) == digits && -100 < exponent && exponent < 100);
}

bool fits(const Expr& e, DType narrow, int nested) {
  if (nested == 0) return false;
  if (const Cast* cast = e.as<Cast>()) return cast->value->dtype.element() == narrow;
  if (const FloatImm* number = e.as<FloatImm>()) return is_bf16(number->value);
  if (const Broadcast* broadcast = e.as<Broadcast>()) return fits(broadcast->value, narrow, nested - 1);
  if (const Select* choice = e.as<Select>())
    return fits(choice->when_true, narrow, nested - 1) && fits(choice->when_false, narrow, nested - 1);
  if (const Unary* u = e.as<Unary>())
    return (u->op == UnaryOp::neg || u->op == UnaryOp::abs) && fits(u->a, narrow, nested - 1);
  const Binary* b = e.as<Binary>();
  return b && (b->op == BinaryOp::min || b->op == BinaryOp::max) && fits(b->a, narrow, nested - 1) &&
         fits(b->b, narrow, nested - 1);
}

}  // namespace

bool fits_exactly(const Expr& e, DType narrow) {
  // f16 is rounded by one instruction as it is.
  return narrow.element() == bf16 && e->dtype.element() == f32 && fits(e, bf16, most_nested);
}

}  // namespace lathe
