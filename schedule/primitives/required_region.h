#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// What of the producer's first written buffer (all others at the same indices) the blocks below `loop` read in one of
/// its iterations, as a region over the variables of the loop and those around it. A buffer that the producer itself
/// reads, as a reduction does, does not count.
Region required_region(const Block& producer, const Stmt& loop);

}  // namespace lathe
