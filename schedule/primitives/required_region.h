#pragma once
#include "ir/analysis/interval.h"
#include "schedule/schedule.h"

namespace lathe {

/// A region that holds what is read of a buffer, and the checked hints that say so, for which nothing yet checks.
struct RequiredRegion {
  Region region;
  struct Relied {
    Stmt block;
    Region hint;
  };
  std::vector<Relied> relied;
};

/// What of the producer's first written buffer (all others at the same indices) the blocks below `loop` read in one of
/// its iterations, as a region over the variables of the loop and those around it. A buffer that the producer itself
/// reads, as a reduction does, does not count. Hints of blocks below the loop stand for what they govern. `around`
/// knows what holds at the loop.
RequiredRegion required_region(const Block& producer, const Stmt& loop, const Bounds& around);

}  // namespace lathe
