#pragma once
#include "jit/trace/tensor.h"

namespace lathe::ops {

/// X(operator, UnaryOp): element-wise functions of floats that the IR has as they are.
// clang-format off
#define LATHE_FLOAT_FUNCTIONS(X)                                                                                  \
  X(exp, exp)                                                                                                     \
  X(exp2, exp2)                                                                                                   \
  X(expm1, expm1)                                                                                                 \
  X(log, log)                                                                                                     \
  X(log2, log2) X(log10, log10) X(log1p, log1p) X(sqrt, sqrt) X(rsqrt, rsqrt) X(sin, sin) X(cos, cos) X(tan, tan) \
      X(asin, asin) X(acos, acos) X(atan, atan) X(sinh, sinh) X(cosh, cosh) X(tanh, tanh) X(asinh, asinh)         \
          X(acosh, acosh) X(atanh, atanh) X(erf, erf) X(sigmoid, sigmoid)
// clang-format on

#define LATHE_DECLARE(name, op) Tensor name(const Tensor& x);
LATHE_FLOAT_FUNCTIONS(LATHE_DECLARE)
#undef LATHE_DECLARE

Tensor atan2(const Tensor& y, const Tensor& x);
/// log(exp(a) + exp(b)), without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);

/// On numbers; an integer is its own. `round` is half to even.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor round(const Tensor& x);

}  // namespace lathe::ops
