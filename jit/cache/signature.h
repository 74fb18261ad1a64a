#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/device.h"
#include "jit/layout.h"

namespace lathe {

inline constexpr const char* lathe_version = "0.1.0";

/// What a kernel assumes of one array argument.
struct TensorSignature {
  DType dtype;
  std::vector<std::int64_t> dims;
  StrideClasses strides = 0;
  AlignmentClass alignment = AlignmentClass::element;
  bool output = false;

  friend bool operator==(const TensorSignature&, const TensorSignature&) = default;
};

/// Everything that machine code depends on: two calls of equal signature run the same kernel. Outputs are disjoint from
/// every other argument: one that is not is computed into a temporary (jit/function.h).
struct Signature {
  std::uint64_t program = 0;  ///< structural hash of the Func, layouts included
  std::vector<TensorSignature> tensors;
  std::vector<DType> scalars;
  std::string precision = "default";
  std::string device;  ///< Device::fingerprint
  int abi = 0;
  std::string lathe;
  std::string llvm;

  friend bool operator==(const Signature&, const Signature&) = default;
  std::uint64_t hash() const;
  /// One field a line.
  std::string to_string() const;
};

}  // namespace lathe
