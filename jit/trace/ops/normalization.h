#pragma once
#include "jit/trace/ops/reduction.h"

/// Floating only; f16 and bf16 stay f32 between the passes.
namespace lathe::ops {

/// log of the sum of exp, without overflow.
Tensor logsumexp(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);
/// Over all of `axes` together.
Tensor softmax(const Tensor& x, const std::vector<std::int64_t>& axes = {-1});
Tensor log_softmax(const Tensor& x, const std::vector<std::int64_t>& axes = {-1});
inline Tensor softmax(const Tensor& x, std::int64_t axis) {
  return softmax(x, std::vector{axis});
}
inline Tensor log_softmax(const Tensor& x, std::int64_t axis) {
  return log_softmax(x, std::vector{axis});
}
/// (x - mean) / sqrt(variance + epsilon) over `axes`, times weight, plus bias (both broadcast to x).
Tensor layer_norm(const Tensor& x, const std::optional<Tensor>& weight = std::nullopt,
                  const std::optional<Tensor>& bias = std::nullopt, const std::vector<std::int64_t>& axes = {-1},
                  double epsilon = 1e-5);
/// x / sqrt(mean of squares + epsilon) over `axes`, times weight.
Tensor rms_norm(const Tensor& x, const std::optional<Tensor>& weight = std::nullopt,
                const std::vector<std::int64_t>& axes = {-1}, double epsilon = 1e-6);

}  // namespace lathe::ops
