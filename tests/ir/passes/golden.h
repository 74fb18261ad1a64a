#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/func.h"

namespace lathe::testing {

/// One golden file: a pass, a Func before it and after it, and scalar arguments to run both with.
///
///   # pass: lower_blocks
///   # scalars: 13            (any number of lines; for Funcs with scalar parameters)
///   func ...
///   # after
///   func ...
struct GoldenCase {
  std::string path, pass, before;
  std::string header;  ///< the comment lines above
  std::string after;
  std::vector<std::vector<std::int64_t>> runs;  ///< at least one
};
GoldenCase read_case(const std::string& path);
void write_case(const GoldenCase& c, const std::string& after);

/// Output buffers' bytes after interpreting `func` on seeded inputs whose float values are small integers, so that sums
/// of products are exact in any order; and the status.
struct Outcome {
  std::int32_t status = 0;
  std::string message;
  std::int64_t index = 0;
  std::vector<std::vector<std::byte>> buffers;
  bool operator==(const Outcome&) const = default;
};
Outcome run(const Func& func, const std::vector<std::int64_t>& scalars, int seed);

}  // namespace lathe::testing
