#include <limits>

#include "ir/intrinsics.h"
#include "ir/passes/math/functions.h"
#include "ir/passes/math/vector_library.h"

namespace lathe::math {
namespace {

Expr absolute(const Expr& x) {
  return unary(UnaryOp::abs, x);
}
Expr call(Builder& b, const char* name, const Expr& x) {
  return library_call(b, name, {x});
}

/// SLEEF's function where it is right, and `replacement` beyond `limit`, where its intermediates overflow before the
/// result.
Expr up_to(Builder& b, const char* name, const Expr& x, const Expr& limit, const Expr& replacement) {
  return b.unless(b.bind("beyond", gt(absolute(x), limit)), b.bind("usual", call(b, name, x)), replacement);
}

/// log(2|x|), the size of asinh and acosh where 1 no longer counts.
Expr log_twice(Builder& b, const Expr& x) {
  return call(b, "log", absolute(x)) + constant(x->dtype, 0x1.62e42fefa39efp-1);
}

Expr sigmoid_f64(Builder& b, const Expr& x) {
  const Expr one = constant(x->dtype, 1.0);
  const Expr e = b.bind("e", exp_f64(b, b.bind("negative", -absolute(x)), 0));
  return div(select(lt(x, constant(x->dtype, 0.0)), e, one), one + e);
}

/// Is f(x) = x to the last bit where |x| is tiny? There SLEEF may flush to a zero, of either sign.
bool is_identity_at_zero(UnaryOp op) {
  switch (op) {
    case UnaryOp::sin:
    case UnaryOp::tan:
    case UnaryOp::asin:
    case UnaryOp::atan:
    case UnaryOp::asinh:
    case UnaryOp::atanh:
      return true;
    default:
      return false;
  }
}

/// The whole domain but the neighbourhood of zero.
Expr away_from_zero(Builder& b, UnaryOp op, const Expr& x) {
  const DType type = x->dtype;
  const bool single = type.bits == 32;
  const Expr inverse_limit = constant(type, single ? 0x1p60 : 0x1p500);
  switch (op) {
    case UnaryOp::rsqrt:
      return div(constant(type, 1.0), unary(UnaryOp::sqrt, x));
    case UnaryOp::sigmoid:
      return sigmoid_f64(b, x);
    case UnaryOp::asinh:
      return up_to(b, "asinh", x, inverse_limit, with_sign_of(log_twice(b, x), x));
    case UnaryOp::acosh: {
      const Expr beyond = b.bind("beyond", gt(x, inverse_limit));
      return b.unless(beyond, b.bind("usual", call(b, "acosh", x)), log_twice(b, x));
    }
    default:
      return call(b, std::string(to_string(op)).c_str(), x);
  }
}

}  // namespace

Expr library_unary(Builder& b, UnaryOp op, const Expr& x) {
  Expr y = away_from_zero(b, op, x);
  if (!is_identity_at_zero(op)) return y;
  return select(lt(absolute(x), constant(x->dtype, x->dtype.bits == 32 ? 0x1p-26 : 0x1p-55)), x, y);
}

Expr library_binary(Builder& b, BinaryOp op, const Expr& x, const Expr& y) {
  const Expr result = library_call(b, std::string(to_string(op)), {x, y});
  // The greatest finite numbers overflow in SLEEF's pow even to the first power.
  return op == BinaryOp::pow ? select(eq(y, constant(y->dtype, 1.0)), x, result) : result;
}

}  // namespace lathe::math
