#pragma once
#include <memory>
#include <vector>

#include "ir/device.h"
#include "ir/expr.h"
#include "jit/engine/engine.h"

namespace lathe::exhaustive {

/// out[i] = op(in[i]) compiled for `device` through the CPU's passes, `lanes` elements at a time.
class ElementwiseKernel {
 public:
  ElementwiseKernel(UnaryOp op, DType dtype, const Device& device, int lanes);
  ElementwiseKernel(BinaryOp op, DType dtype, const Device& device, int lanes);

  int lanes() const { return lanes_; }
  /// `count` is a multiple of the lanes.
  void operator()(void* out, std::vector<const void*> in, std::int64_t count) const;

 private:
  int lanes_;
  std::shared_ptr<LoadedKernel> kernel_;
};

}  // namespace lathe::exhaustive
