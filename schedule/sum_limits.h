#pragma once
/// What a block's predicate says of how far sums of loops reach.
#include <cstdint>
#include <utility>
#include <vector>

#include "ir/stmt.h"

namespace lathe {

/// That a sum of terms is at most so much wherever the block touches memory.
struct SumLimit {
  using Terms = std::vector<std::pair<Expr, std::int64_t>>;
  Terms terms;
  std::int64_t most;

  bool is_of(const Terms& others) const;
};

/// Nothing of a block with an init, which runs whatever the predicate says.
std::vector<SumLimit> limits_of(const Block& block);

}  // namespace lathe
