#pragma once
#include <optional>

#include "jit/trace/tensor.h"

namespace lathe::ops {

/// Sums (products) of the elements up to each along `axis`, which only a 1-d tensor may leave out. Integers accumulate
/// and return as i64, unsigned ones as u64; f16 and bf16 accumulate in f32. `dtype` converts first. `include_initial`
/// puts a 0 (1) before them, so that the axis has an element more.
Tensor cumulative_sum(const Tensor& x, std::optional<std::int64_t> axis = std::nullopt,
                      std::optional<DType> dtype = std::nullopt, bool include_initial = false);
Tensor cumulative_prod(const Tensor& x, std::optional<std::int64_t> axis = std::nullopt,
                       std::optional<DType> dtype = std::nullopt, bool include_initial = false);

}  // namespace lathe::ops
