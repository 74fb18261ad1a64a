#pragma once
#include <span>
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Applies the lines of a record (Schedule::record) to a Func, in order. A loop stands there as BLOCK.DEPTH: the loops
/// around the block, counted from 0, at that point of the record; so a record replays on any Func whose blocks have
/// those names and nest alike, whatever its extents. A line that cannot be read is an InputError(syntax) that quotes
/// it; one that the Func does not allow is the primitive's own Refusal.
void replay(Schedule& schedule, std::span<const std::string> record);

}  // namespace lathe
