#pragma once
#include "ir/expr.h"

namespace lathe {

/// Constant folding with the semantics of ir/expr.h, lane by lane alike. Each returns null when an operand is no
/// constant, when the result is not exactly determined there (float to integer out of range), or when the operation is
/// transcendental: only IEEE-exact float operations are folded, in the precision of their type.
Expr fold_unary(UnaryOp op, const Expr& a);
Expr fold_binary(BinaryOp op, const Expr& a, const Expr& b);
Expr fold_cast(DType to, const Expr& value);

/// The value of a scalar or broadcast float constant; null otherwise.
const double* as_float(const Expr& e);
/// The scalar that every lane of `e` holds, when its form says so (Broadcast, or a constant of vector type); null
/// otherwise.
Expr scalar_of(const Expr& e);
/// 0 or false of any type.
Expr zero(DType dtype);
/// A bool constant; and is `e` one, in every lane?
Expr truth(bool value, int lanes);
bool is_true(const Expr& e);
bool is_false(const Expr& e);
/// A scalar in every lane; itself for one lane.
Expr widen(const Expr& scalar, int lanes);

}  // namespace lathe
