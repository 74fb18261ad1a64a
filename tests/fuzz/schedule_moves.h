#pragma once
/// Random applications of schedule primitives.
#include <functional>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "tests/fuzz/random.h"

namespace lathe::testing {

/// Picks arguments for a primitive, and applies it; false when the Func has nothing to pick from. A Refusal passes
/// through. What leads up to the primitive is applied, too.
struct Move {
  std::string primitive;
  std::function<bool(Schedule&, Random&)> apply;
};

/// One or several ways to each primitive.
const std::vector<Move>& moves();

}  // namespace lathe::testing
