#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Milliseconds spent in the two halves of code generation.
struct CodegenTimes {
  double emit = 0;     ///< TIR to LLVM IR
  double codegen = 0;  ///< LLVM IR to object code
};

/// One kernel as a relocatable object, the same bytes that a disk cache stores.
struct ObjectCode {
  std::vector<char> bytes;
  std::string symbol;                  ///< the kernel's entry, a LatheKernel (ir/abi.h)
  std::vector<std::string> externals;  ///< extern callees that linking must bind by address
  std::int64_t shared_bytes = 0;       ///< workspace all threads share
  std::int64_t worker_bytes = 0;       ///< workspace of each worker
};

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool host_address_sanitizer = true;
#else
inline constexpr bool host_address_sanitizer = false;
#endif

struct CodegenOptions {
  /// Instrument the kernel's memory accesses. Needs a host that was itself built with the sanitizer, whose kernels are
  /// then instrumented unless told otherwise.
  bool address_sanitizer = host_address_sanitizer;
  bool name_values = false;  ///< keep TIR's names in the LLVM IR, for reading
};

/// Compiles a Func at stage `end`. Thread safe: each thread has a TargetMachine of its own.
ObjectCode compile_to_object(const Func& func, const Device& device, const CodegenOptions& options = {},
                             CodegenTimes* times = nullptr);
/// The LLVM IR, and the assembly, as text; never instrumented.
std::string llvm_ir_text(const Func& func, const Device& device);
std::string assembly_text(const Func& func, const Device& device);

}  // namespace lathe
