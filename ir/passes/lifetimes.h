#pragma once
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// An allocation that needs memory, and when.
struct Allocation {
  Buffer buffer;
  std::string space;       ///< where it is to lie; `worker` for what an iteration of a parallel loop has in `global`
  std::int64_t bytes = 0;  ///< at most
  /// Between which statements it is alive, counted in program order, both inclusive; -1 when nobody uses it. What is
  /// used in a loop and allocated outside of it is alive for the whole loop.
  int first = -1, last = -1;
  size_t depth = 0;  ///< loops around it
};

/// Every allocation but those in registers, in program order. Refusals are plan_storage's, conditions 1 to 3.
std::vector<Allocation> find_lifetimes(const Func& func, const Device& device);

/// Are these the memories that a call brings with it, which the CPU's kernels know: `global` and `worker`?
bool is_workspace(const std::string& space);

}  // namespace lathe
