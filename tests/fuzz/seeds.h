#pragma once
#include <cstdint>

namespace lathe::testing {

/// Which seeds a fuzz test runs: `test_fuzz --seeds A..B`, or the environment's LATHE_FUZZ_SEEDS=A..B, or else the
/// test's own [0, count).
struct Seeds {
  std::uint64_t first, last;  ///< last exclusive
  bool chosen = false;        ///< by the user: tests of coverage, which need many, then say nothing
};
Seeds seeds(std::uint64_t count);

/// `test_fuzz --verbose`, or LATHE_FUZZ_VERBOSE in the environment: a line for each program, with its bound.
bool verbose();

}  // namespace lathe::testing
