#pragma once
#include <optional>

#include "jit/trace/tensor.h"

namespace lathe::ops {

Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);  ///< floating only
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);  ///< with b's sign
Tensor pow(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);  ///< NaN when either is
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor hypot(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor nextafter(const Tensor& a, const Tensor& b);
Tensor abs(const Tensor& x);  ///< of the least integer: itself
Tensor negative(const Tensor& x);
Tensor positive(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sign(const Tensor& x);  ///< -1, 0, 1; NaN of NaN
Tensor square(const Tensor& x);
/// minimum(maximum(x, low), high); a missing bound does not bound.
Tensor clip(const Tensor& x, const std::optional<Tensor>& low, const std::optional<Tensor>& high);
/// a where the bool `condition` holds, else b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// Any dtype to any. The tensor itself when it has that dtype already.
Tensor astype(const Tensor& x, DType dtype);
/// An operator's own rounding of what it has computed in a wider type (compute_rounded); astype is one that the caller
/// asks for.
Tensor round_result(const Tensor& x, DType dtype);

}  // namespace lathe::ops

namespace lathe {

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return ops::add(a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return ops::subtract(a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return ops::multiply(a, b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return ops::divide(a, b);
}
inline Tensor operator%(const Tensor& a, const Tensor& b) {
  return ops::remainder(a, b);
}
inline Tensor operator-(const Tensor& x) {
  return ops::negative(x);
}

}  // namespace lathe
