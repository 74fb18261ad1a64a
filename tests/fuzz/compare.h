#pragma once
#include <string>
#include <vector>

#include "ir/interpreter/interpreter.h"
#include "tests/fuzz/bound_statistics.h"
#include "tests/fuzz/generator.h"

namespace lathe::testing {

/// A program's arrays after a run.
struct Outcome {
  std::vector<GuardedArray> arrays;
  std::int32_t status = 0;
  std::string message;                          ///< of a failed Assert
  std::vector<std::vector<FloatBound>> bounds;  ///< by parameter, when asked for
};

/// Runs `func`, some form of the program, in the interpreter.
Outcome run_interpreted(const GeneratedProgram& program, const Func& func, bool with_bounds = false);

/// Empty when `outcome` is what `reference`, run with bounds, allows: integers, bools and views bit for bit, floats
/// within their bounds, gaps and inputs untouched. Else what differs first, with the bound that the program has there.
/// `statistics` gathers all elements of the program's runs.
std::string compare(const GeneratedProgram& program, const Outcome& reference, const Outcome& outcome,
                    BoundStatistics* statistics = nullptr);

/// "seed 7: view, reduction (flip, sum), f32[3, n] u8[3] -> f32[n], 3 runs: bound 1.2e-06, largest error 0.21 of it".
std::string describe(const GeneratedProgram& program, const BoundStatistics& statistics);

}  // namespace lathe::testing
