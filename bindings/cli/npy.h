#pragma once
#include <string>
#include <vector>

#include "jit/tensor_view.h"

namespace lathe {

/// An array in memory of its own, row-major unless `fortran_order` came from the file.
struct Array {
  DType dtype;
  std::vector<std::int64_t> shape, strides;  ///< strides in elements
  std::vector<std::byte> bytes;

  TensorView view();
  static Array zeros(DType dtype, std::vector<std::int64_t> shape);
};

/// NumPy's .npy format, versions 1 to 3 (numpy.lib.format). bfloat16, which NumPy lacks, is not in it.
Array read_npy(const std::string& path);
void write_npy(const std::string& path, const Array& array);

}  // namespace lathe
