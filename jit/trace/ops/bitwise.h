#pragma once
#include "jit/trace/tensor.h"

namespace lathe::ops {

/// On integers and bools.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_invert(const Tensor& x);
/// On integers: how many bits of the absolute value are set, as u8.
Tensor bitwise_count(const Tensor& x);
/// On integers. A shift by the width or more gives 0, or the sign.
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);

}  // namespace lathe::ops
