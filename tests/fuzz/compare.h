#pragma once
#include <string>
#include <vector>

#include "ir/interpreter/interpreter.h"
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

/// How tight the bounds of floats were.
struct BoundStatistics {
  std::int64_t elements = 0, unbounded = 0;
  double worst = 0;  ///< the largest error as a part of its bound
};

/// Empty when `outcome` is what `reference`, run with bounds, allows: integers, bools and views bit for bit, floats
/// within their bounds, gaps and inputs untouched. Else what differs first, with the bound that the program has there.
std::string compare(const GeneratedProgram& program, const Outcome& reference, const Outcome& outcome,
                    BoundStatistics* statistics = nullptr);

/// "5 outputs' bounds": the largest radius of each float output, for the log of a program.
std::string describe_bounds(const GeneratedProgram& program, const Outcome& reference);

}  // namespace lathe::testing
