#include "ir/analysis/narrow_cast.h"

#include "ir/analysis/fold.h"

namespace lathe {
namespace {

/// Operators that are narrowed at the most: operands that several share are narrowed for each.
constexpr int most_narrowed = 64;

class Narrowing {
 public:
  explicit Narrowing(DType type) : type_(type) {}

  Expr narrow(const Expr& e) {
    if (--left_ < 0) return nullptr;
    if (e->kind == ExprKind::IntImm) return fold_cast(type_, e);
    if (const Cast* cast = e.as<Cast>()) return narrow_operand(cast->value);
    if (const Unary* unary = e.as<Unary>()) {
      if (unary->op != UnaryOp::neg && unary->op != UnaryOp::bit_not) return nullptr;
      const Expr a = narrow(unary->a);
      return a ? Unary::make(unary->op, a) : nullptr;
    }
    if (const Select* choice = e.as<Select>()) {
      const Expr a = narrow(choice->when_true), b = a ? narrow(choice->when_false) : nullptr;
      return b ? Select::make(choice->condition, a, b) : nullptr;
    }
    const Binary* node = e.as<Binary>();
    if (!node || !takes_low_bits(node->op)) return nullptr;
    const Expr a = narrow(node->a), b = a ? narrow(node->b) : nullptr;
    return b ? Binary::make(node->op, a, b) : nullptr;
  }

 private:
  static bool takes_low_bits(BinaryOp op) {
    return op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul || op == BinaryOp::bit_and ||
           op == BinaryOp::bit_or || op == BinaryOp::bit_xor;
  }

  Expr narrow_operand(const Expr& e) const {
    const bool fits = e->dtype.is_bool() || (e->dtype.is_integer() && e->dtype.bits <= type_.bits);
    if (!fits) return nullptr;
    return e->dtype == type_ ? e : Cast::make(type_, e);
  }

  const DType type_;
  int left_ = most_narrowed;
};

}  // namespace

Expr narrow_cast(const Expr& value, DType type) {
  const bool narrower = type.is_integer() && value->dtype.is_integer() && type.is_scalar() &&
                        value->dtype.is_scalar() && type.bits < value->dtype.bits;
  const ExprKind kind = value->kind;
  if (!narrower || (kind != ExprKind::Binary && kind != ExprKind::Select && kind != ExprKind::Unary)) return nullptr;
  return Narrowing(type).narrow(value);
}

}  // namespace lathe
