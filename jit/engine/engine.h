#pragma once
#include <cstdint>
#include <memory>

#include "backends/llvm/emit.h"
#include "ir/abi.h"

namespace lathe {

/// Machine code in this process. Its pages are given back when the last reference goes.
class LoadedKernel {
 public:
  LatheKernel entry() const { return entry_; }
  std::int64_t shared_bytes() const { return shared_bytes_; }
  std::int64_t worker_bytes() const { return worker_bytes_; }
  /// Unloads the code; no thread may be in it.
  ~LoadedKernel();

 private:
  friend class Engine;
  LoadedKernel() = default;
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
  LatheKernel entry_ = nullptr;
  std::int64_t shared_bytes_ = 0, worker_bytes_ = 0;
};

/// Links object code into this process, through LLVM's ORC and JITLink. Every kernel is a library of its own, so the
/// same object may be loaded twice. All members may be called from any thread.
class Engine {
 public:
  /// The process's engine, made on first use and never destroyed: kernels may outlive every static.
  static Engine& instance();

  /// Binds the object's externals by address (jit/engine/symbols.h) and maps its code. A name that nothing provides is
  /// an InputError.
  std::shared_ptr<LoadedKernel> link(const ObjectCode& object);

  /// Kernels that are mapped now.
  std::int64_t loaded_kernels() const;
  /// Bytes of address space that the engine has reserved for code, and those of them that hold kernels now.
  std::int64_t reserved_bytes() const;
  std::int64_t mapped_bytes() const;

 private:
  Engine();
  struct Impl;
  Impl* impl_;
  friend class LoadedKernel;
};

}  // namespace lathe
