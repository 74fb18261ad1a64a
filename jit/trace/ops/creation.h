#pragma once
#include <concepts>
#include <optional>

#include "jit/trace/tensor.h"

/// Tensors from nothing: views whose elements are expressions of their index.
namespace lathe::ops {

/// `value` is a 0-d tensor or a number; its own dtype unless one is given.
Tensor full(const Shape& shape, const Tensor& value, std::optional<DType> dtype = std::nullopt);
Tensor zeros(const Shape& shape, DType dtype = f32);
Tensor ones(const Shape& shape, DType dtype = f32);
Tensor full_like(const Tensor& x, const Tensor& value, std::optional<DType> dtype = std::nullopt);
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor ones_like(const Tensor& x, std::optional<DType> dtype = std::nullopt);
/// 1 on diagonal k, else 0.
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, std::int64_t k = 0,
           DType dtype = f32);
/// start, start + step, .. before stop.
Tensor arange_integers(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype);
template <std::integral A, std::integral B, std::integral C = int>
Tensor arange(A start, B stop, C step = 1, DType dtype = i64) {
  return arange_integers(start, stop, step, dtype);
}
Tensor arange(double start, double stop, double step, DType dtype = f32);
/// `count` evenly spaced numbers from start to stop, which is the last one when `endpoint`.
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = f32, bool endpoint = true);

}  // namespace lathe::ops
