#pragma once
#include <optional>
#include <string_view>

#include "jit/trace/tensor.h"

namespace lathe::ops {

/// The axes that an operator works along; nothing means all of them.
using Axes = std::optional<std::vector<std::int64_t>>;

/// What sums and products of `given` are returned as: `dtype` where there is one, else i64 or u64 for integers, i64 for
/// bools. An InputError where `dtype` is no number.
DType accumulated_type(std::string_view name, DType given, std::optional<DType> dtype);

/// Integers accumulate and return as i64, unsigned ones as u64; f16 and bf16 accumulate in f32. Of bools sums count the
/// true ones, as i64. `dtype` converts first.
Tensor sum(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false,
           std::optional<DType> dtype = std::nullopt);
Tensor prod(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false,
            std::optional<DType> dtype = std::nullopt);
/// Floating only; NaN over no elements.
Tensor mean(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);
/// Two passes; divides by the number of elements less `correction`.
Tensor var(const Tensor& x, const Axes& axes = std::nullopt, double correction = 0, bool keepdims = false);
Tensor std(const Tensor& x, const Axes& axes = std::nullopt, double correction = 0, bool keepdims = false);
/// NaN when any element is; InputError over no elements.
Tensor max(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);
Tensor min(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);
/// The first index of the greatest (least) element as i64; the first NaN wins. Without an axis, into the flattened
/// tensor.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
/// Any dtype; non-zero counts as true, NaN too.
Tensor any(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);
Tensor all(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);

}  // namespace lathe::ops
