#pragma once
#include "ir/passes/math/builder.h"

namespace lathe::math {

/// What replaces `op` of arguments that are lowered already, or null where the machine has an instruction for it.
Expr lower_unary(Builder& b, UnaryOp op, const Expr& a);
Expr lower_binary(Builder& b, BinaryOp op, const Expr& x, const Expr& y);

/// Our own vector functions in f32, any lane count, at most 2 ULP on every input, denormals and special values included, with
/// and without a fused multiply-add. Arguments are bound already. Measured errors: docs/math.md.
Expr exp_f32(Builder& b, const Expr& x);
Expr exp2_f32(Builder& b, const Expr& x);
Expr log_f32(Builder& b, const Expr& x);
Expr tanh_f32(Builder& b, const Expr& x);
Expr sigmoid_f32(Builder& b, const Expr& x);
Expr erf_f32(Builder& b, const Expr& x);
Expr sin_f32(Builder& b, const Expr& x);
Expr cos_f32(Builder& b, const Expr& x);
Expr pow_f32(Builder& b, const Expr& x, const Expr& y);

}  // namespace lathe::math
