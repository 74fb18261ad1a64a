#pragma once
#include <memory>

#include "backends/llvm/emit.h"
#include "ir/device.h"
#include "tests/fuzz/compare.h"

namespace lathe {
class LoadedKernel;
}

namespace lathe::testing {

/// A program's machine code.
struct CompiledProgram {
  std::shared_ptr<LoadedKernel> code;
  std::int64_t shared_bytes = 0, worker_bytes = 0;
};

/// `end`: the program lowered to stage end. Instrumented for the address sanitizer where this build is, as a caller's
/// kernels are.
CompiledProgram compile_program(const Func& end, const Device& device, bool address_sanitizer = host_address_sanitizer);

/// Runs it once on the caller's own memory; it must need no workspace.
std::int32_t run_on(const CompiledProgram& compiled, void* const* pointers);

/// Runs it once on arrays and workspaces that lie against guard pages. Parallel loops run in pieces of their grain,
/// last piece first, dealt out to a few workers. A fault is told in the outcome's message, with status -1.
Outcome run_compiled(const GeneratedProgram& program, const CompiledProgram& compiled, Against against);

}  // namespace lathe::testing
