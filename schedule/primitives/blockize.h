#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Makes one block of a loop and all below it, whose instances are the tiles: what tensorize replaces.
///
///   for io: for ii in 0..8:                 for io:
///     block B(io*8 + ii): ..          ->      block B_tile(vio = io):
///                                               for ii in 0..8:
///                                                 block B(vio*8 + ii): ..
///
/// The tile's iters are the loops around it that it uses: space ones where tiles touch different elements, ordered ones
/// else. Returns the block of tiles.
///
/// Requires:
///   1. below loop stands one block within loops, and nothing else
///   2. the bounds of the loops around it, up to the next block, use no loop
///   3. block has no init, unless its reduce iters use loops at or below loop alone
BlockRef blockize(Schedule& schedule, const LoopRef& loop);

}  // namespace lathe
