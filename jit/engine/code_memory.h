#pragma once
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include <atomic>
#include <memory>

namespace lathe {

struct CodeMemoryCounts {
  std::atomic<std::int64_t> reserved{0}, mapped{0};
};

/// Memory for kernels, from slabs that hold many of them, all within reach of each other. A kernel's pages are written,
/// and only then made executable; when it goes its pages return to the system, and its addresses to the slab.
std::unique_ptr<llvm::jitlink::JITLinkMemoryManager> make_code_memory(CodeMemoryCounts& counts);

}  // namespace lathe
