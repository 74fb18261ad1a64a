#include "ir/analysis/fold.h"

#include <cmath>

namespace lathe {
namespace {

Expr fold_integers(BinaryOp op, DType dtype, std::int64_t a, std::int64_t b) {
  using U = std::uint64_t;
  bool is_unsigned = dtype.is_unsigned() || dtype.is_bool();
  auto make = [&](U value) { return IntImm::make(dtype, wrap_integer(dtype, static_cast<std::int64_t>(value))); };
  bool less = is_unsigned ? U(a) < U(b) : a < b;
  switch (op) {
    case BinaryOp::add:
      return make(U(a) + U(b));
    case BinaryOp::sub:
      return make(U(a) - U(b));
    case BinaryOp::mul:
      return make(U(a) * U(b));
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod: {
      if (b == 0) return make(0);
      bool quotient = op == BinaryOp::floor_div;
      if (is_unsigned) return make(quotient ? U(a) / U(b) : U(a) % U(b));
      if (b == -1) return make(quotient ? 0 - U(a) : 0);
      std::int64_t q = a / b, r = a % b;
      if (r != 0 && (r < 0) != (b < 0)) --q, r += b;
      return make(U(quotient ? q : r));
    }
    case BinaryOp::min:
      return make(U(less ? a : b));
    case BinaryOp::max:
      return make(U(less ? b : a));
    case BinaryOp::bit_and:
      return make(U(a) & U(b));
    case BinaryOp::bit_or:
      return make(U(a) | U(b));
    case BinaryOp::bit_xor:
      return make(U(a) ^ U(b));
    case BinaryOp::shl:
    case BinaryOp::shr: {
      // The count is read as unsigned, at the operand's own width.
      U count = dtype.bits == 64 ? U(b) : U(b) & ((U(1) << dtype.bits) - 1);
      if (op == BinaryOp::shl) return make(count >= dtype.bits ? 0 : U(a) << count);
      if (is_unsigned) return make(count >= dtype.bits ? 0 : U(a) >> count);
      return make(U(a >> (count >= dtype.bits ? 63 : count)));
    }
    case BinaryOp::eq:
      return truth(a == b, dtype.lanes);
    case BinaryOp::ne:
      return truth(a != b, dtype.lanes);
    case BinaryOp::lt:
      return truth(less, dtype.lanes);
    case BinaryOp::le:
      return truth(less || a == b, dtype.lanes);
    case BinaryOp::gt:
      return truth(!less && a != b, dtype.lanes);
    case BinaryOp::ge:
      return truth(!less, dtype.lanes);
    case BinaryOp::logical_and:
      return truth(a && b, dtype.lanes);
    case BinaryOp::logical_or:
      return truth(a || b, dtype.lanes);
    default:
      return nullptr;
  }
}

Expr fold_floats(BinaryOp op, DType dtype, double a, double b) {
  // One operation in double, rounded once more: exact for formats of at most 24 digits (53 >= 2 * 24 + 2; Figueroa
  // 1995).
  auto make = [&](double value) { return FloatImm::make(dtype, round_to(dtype.element(), value)); };
  bool unordered = std::isnan(a) || std::isnan(b);
  bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  switch (op) {
    case BinaryOp::add:
      return make(a + b);
    case BinaryOp::sub:
      return make(a - b);
    case BinaryOp::mul:
      return make(a * b);
    case BinaryOp::div:
      return make(a / b);
    case BinaryOp::min:
      return make(unordered ? NAN : less ? a : b);
    case BinaryOp::max:
      return make(unordered ? NAN : less ? b : a);
    case BinaryOp::copysign:
      return make(std::copysign(a, b));
    case BinaryOp::eq:
      return truth(a == b, dtype.lanes);
    case BinaryOp::ne:
      return truth(a != b, dtype.lanes);
    case BinaryOp::lt:
      return truth(a < b, dtype.lanes);
    case BinaryOp::le:
      return truth(a <= b, dtype.lanes);
    case BinaryOp::gt:
      return truth(a > b, dtype.lanes);
    case BinaryOp::ge:
      return truth(a >= b, dtype.lanes);
    default:
      return nullptr;
  }
}

}  // namespace

const double* as_float(const Expr& e) {
  if (auto* f = e.as<FloatImm>()) return &f->value;
  if (auto* b = e.as<Broadcast>()) return as_float(b->value);
  return nullptr;
}

Expr scalar_of(const Expr& e) {
  if (auto* b = e.as<Broadcast>()) return b->value;
  if (auto* i = e.as<IntImm>()) return IntImm::make(e->dtype.element(), i->value);
  if (auto* f = e.as<FloatImm>()) return FloatImm::make(e->dtype.element(), f->value);
  return nullptr;
}

Expr zero(DType dtype) {
  return dtype.is_float() ? FloatImm::make(dtype, 0.0) : IntImm::make(dtype, 0);
}

Expr truth(bool value, int lanes) {
  return IntImm::make(boolean.with_lanes(lanes), value);
}

bool is_true(const Expr& e) {
  return e->dtype.is_bool() && is_int(e, 1);
}

bool is_false(const Expr& e) {
  return e->dtype.is_bool() && is_int(e, 0);
}

Expr widen(const Expr& scalar, int lanes) {
  return lanes > 1 ? Broadcast::make(scalar, lanes) : scalar;
}

Expr fold_unary(UnaryOp op, const Expr& a) {
  DType dtype = a->dtype;
  if (const std::int64_t* i = as_int(a)) {
    auto make = [&](std::uint64_t v) { return IntImm::make(dtype, wrap_integer(dtype, static_cast<std::int64_t>(v))); };
    switch (op) {
      case UnaryOp::neg:
        return make(0 - std::uint64_t(*i));
      case UnaryOp::bit_not:
        return make(~std::uint64_t(*i));
      case UnaryOp::abs:
        return make(*i < 0 && !dtype.is_unsigned() ? 0 - std::uint64_t(*i) : std::uint64_t(*i));
      case UnaryOp::logical_not:
        return truth(*i == 0, dtype.lanes);
      default:
        return nullptr;
    }
  }
  const double* f = as_float(a);
  if (!f) return nullptr;
  auto make = [&](double v) { return FloatImm::make(dtype, round_to(dtype.element(), v)); };
  switch (op) {
    case UnaryOp::neg:
      return make(-*f);
    case UnaryOp::abs:
      return make(std::fabs(*f));
    case UnaryOp::sqrt:
      return make(std::sqrt(*f));
    case UnaryOp::floor:
      return make(std::floor(*f));
    case UnaryOp::ceil:
      return make(std::ceil(*f));
    case UnaryOp::trunc:
      return make(std::trunc(*f));
    case UnaryOp::round:
      return make(std::nearbyint(*f));
    case UnaryOp::is_nan:
      return truth(std::isnan(*f), dtype.lanes);
    case UnaryOp::is_inf:
      return truth(std::isinf(*f), dtype.lanes);
    case UnaryOp::is_finite:
      return truth(std::isfinite(*f), dtype.lanes);
    case UnaryOp::signbit:
      return truth(std::signbit(*f), dtype.lanes);
    default:
      return nullptr;
  }
}

Expr fold_binary(BinaryOp op, const Expr& a, const Expr& b) {
  const std::int64_t *x = as_int(a), *y = as_int(b);
  if (x && y) return fold_integers(op, a->dtype, *x, *y);
  const double *p = as_float(a), *q = as_float(b);
  if (p && q) return fold_floats(op, a->dtype, *p, *q);
  return nullptr;
}

Expr fold_cast(DType to, const Expr& value) {
  DType result = to.with_lanes(value->dtype.lanes);
  if (const std::int64_t* i = as_int(value)) {
    if (to.is_bool()) return IntImm::make(result, *i != 0);
    if (to.is_integer()) return IntImm::make(result, wrap_integer(to.element(), *i));
    // One rounding only: a 64-bit integer goes to double and then to a narrower type without a second rounding where it
    // has at most 53 digits.
    bool huge = value->dtype.is_unsigned() && *i < 0;
    bool exact = !huge && *i >= -(std::int64_t{1} << 53) && *i <= std::int64_t{1} << 53;
    if (!exact) return nullptr;
    return FloatImm::make(result, round_to(to.element(), static_cast<double>(*i)));
  }
  const double* f = as_float(value);
  if (!f) return nullptr;
  if (to.is_bool()) return IntImm::make(result, !(*f == 0.0));
  if (to.is_float()) return FloatImm::make(result, round_to(to.element(), *f));
  double whole = std::trunc(*f);
  double low = to.is_unsigned() ? 0.0 : -std::ldexp(1.0, to.bits - 1);
  double end = std::ldexp(1.0, to.is_unsigned() ? to.bits : to.bits - 1);
  if (!(whole >= low && whole < end) || (to.is_unsigned() && whole >= std::ldexp(1.0, 63))) return nullptr;
  return IntImm::make(result, static_cast<std::int64_t>(whole));
}

}  // namespace lathe
