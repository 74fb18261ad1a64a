#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/abi.h"
#include "ir/func.h"

namespace lathe {

class LoadedKernel;

/// Milliseconds from call to callable, by phase.
struct CompileTimes {
  double trace = 0, schedule = 0, lower = 0, emit = 0, codegen = 0, link = 0;
  double total() const { return trace + schedule + lower + emit + codegen + link; }
};

/// Machine code of one Func, ready to run from any thread at any thread count.
struct Kernel {
  std::string name;
  std::string operators;  ///< the traced computes, comma-separated
  std::string shapes;     ///< "f32[4, 8], f32[8] -> f32[4, 8]"
  LatheKernel entry = nullptr;
  std::int64_t shared_bytes = 0;  ///< workspace of a call
  std::int64_t worker_bytes = 0;  ///< workspace of each worker
  CompileTimes times;
  std::shared_ptr<LoadedKernel> code;  ///< keeps the pages mapped

  std::atomic<bool> evicted{false};  ///< no longer in the cache: whoever still holds it lets go

  mutable std::atomic<std::int64_t> calls{0};
  mutable std::atomic<std::int64_t> nanoseconds{0};  ///< in calls while profiling is on
  mutable std::atomic<std::int64_t> profiled_calls{0};
};

}  // namespace lathe
