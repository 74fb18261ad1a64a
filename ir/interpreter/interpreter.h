#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/func.h"

namespace lathe {

/// Memory handed to the interpreter for one buffer parameter, as raw bytes in the buffer's own layout: `data` is the
/// base that the buffer's offset and strides count from, and only [begin, end) may be touched.
struct HostBuffer {
  void* data = nullptr;
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
};

/// The program did what it must not: an index out of range, an uninitialized read, two parallel iterations that
/// conflict. The message shows the statement and the values of the variables in scope.
class Trap : public Error {
 public:
  using Error::Error;
};

/// What a float output would be in exact arithmetic, taken as f64, and how far from that a faithful evaluation may lie:
/// each operation rounded to its dtype, library functions within 4 ULP, sums in any order, with or without fma. An
/// infinite radius: anything, for no bound was found (an overflow in reach, a discontinuity, a division by what may be
/// zero).
struct FloatBound {
  double exact = 0;
  double radius = 0;
};

struct InterpreterOptions {
  /// Evaluate every float value in double, and store outputs of float dtypes as they would be after one final rounding:
  /// the yardstick for error bounds.
  bool exact_floats = false;
  /// Reads of never-written elements of allocations and outputs trap.
  bool trap_uninitialized = true;
  /// Run parallel loops back to front and check that no two iterations conflict.
  bool check_parallel = true;
  /// Traps after so many statements; 0 means no limit. A loop that never ends thus ends a test, not the machine.
  std::int64_t step_limit = 0;
  /// When given, it gets one list for each buffer parameter, with a bound for each element of [begin, end): those of
  /// float dtypes. The run itself is as without. Comparisons and integers are decided by the values as rounded to their
  /// dtypes.
  std::vector<std::vector<FloatBound>>* bounds = nullptr;
};

/// Runs `func` at any stage, slowly and exactly. Returns 0, or the status a kernel would return on a failed Assert,
/// whose message and index are then in `*error_message`, `*error_index` when given. `scalars` are as a kernel takes
/// them: i64, or another type's bits in the low end. After plan_storage the workspaces are as large as the Func's attrs
/// "shared_bytes" and "worker_bytes" say, and another space covers the addresses that its buffers' offsets and shapes
/// name.
std::int32_t interpret(const Func& func, std::span<const HostBuffer> buffers, std::span<const std::int64_t> scalars,
                       const InterpreterOptions& options = {}, std::string* error_message = nullptr,
                       std::int64_t* error_index = nullptr);

/// Lets extern Calls to `name` run: `function` gets one lane's arguments, and its result is rounded to the Call's
/// dtype. Registering a name again replaces it. Calls of names that nobody registered are refused.
void register_interpreter_extern(const std::string& name, std::function<double(std::span<const double>)> function);

}  // namespace lathe
