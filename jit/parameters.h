#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/func.h"
#include "jit/tensor_view.h"

namespace lathe {

/// What a program asks of its arguments, found once for all its calls.
class Parameters {
 public:
  explicit Parameters(Func func);

  /// Checks arrays, in parameter order: dtypes, ranks, extents, strides, alignment, facts, and that none that is
  /// written shares memory with another. A mistake is an InputError that names the parameter. Scalars are as the kernel
  /// ABI has them.
  void check(std::span<const TensorView> arrays, std::span<const std::int64_t> scalars) const;

  const Func& func() const { return func_; }
  size_t arrays() const { return arrays_.size(); }
  const std::string& name(size_t array) const { return arrays_[array].buffer->name; }
  bool written(size_t array) const { return arrays_[array].written; }
  const std::vector<VarRef>& scalars() const { return scalars_; }

 private:
  struct ArrayParameter {
    Buffer buffer;
    bool written;
    bool constant;                               // shape and strides are numbers: those below
    std::int64_t alignment;                      // bytes that its address is a multiple of
    std::vector<std::int64_t> extents, strides;  // of each dimension

    /// Is `view` right, to be seen without evaluating anything?
    bool fits(const TensorView& view) const;
  };

  Func func_;
  std::vector<ArrayParameter> arrays_;
  std::vector<VarRef> scalars_;
};

/// An extent over the scalar parameters, as a number.
std::int64_t evaluate_extent(const Func& func, const Expr& extent, std::span<const std::int64_t> scalars);

}  // namespace lathe
