#pragma once
#include <cstdint>
#include <string>

#include "ir/dtype.h"

namespace lathe {

/// A caller's array, borrowed for one call.
struct TensorView {
  void* data = nullptr;  ///< the element at index 0 in every dimension
  DType dtype;
  std::int32_t rank = 0;
  const std::int64_t* shape = nullptr;
  const std::int64_t* strides = nullptr;  ///< in elements; null means compact row-major

  std::int64_t elements() const {
    std::int64_t count = 1;
    for (int d = 0; d < rank; ++d) count *= shape[d];
    return count;
  }
};

/// "f32[3, 4]", as messages show an array.
std::string describe(const TensorView& view);

/// A run-time scalar argument: its bits, widened to 64, and the type it is read as.
struct ScalarValue {
  DType dtype;
  std::int64_t bits = 0;
  bool weak = true;  ///< a Python number, which gives way to an array's dtype of the same kind

  static ScalarValue of(double value);
  static ScalarValue of(std::int64_t value);
};

}  // namespace lathe
