#pragma once
#include "jit/trace/tensor.h"

namespace lathe::ops {

Tensor relu(const Tensor& x);  ///< max(x, 0), on numbers
Tensor gelu(const Tensor& x);  ///< x/2 (1 + erf(x/sqrt 2))
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Hendrycks and Gimpel, arXiv 1606.08415.
Tensor gelu_tanh(const Tensor& x);
Tensor silu(const Tensor& x);      ///< x sigmoid(x)
Tensor softplus(const Tensor& x);  ///< log(1 + exp(x)), without overflow

}  // namespace lathe::ops
