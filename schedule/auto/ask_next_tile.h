#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a tile ask for what the next one reads of the program's arrays, where each step reads elsewhere: hardware
/// follows neighbouring lines, and no walk down a column.
///
///   for tile: for k:                          for tile: for k:
///     acc += a[k] * x[k, tile]          ->      acc += a[k] * x[k, tile];   prefetch x[k, tile + 1]
///
/// The same of rows, each of which is a run along the steps: hardware follows a run no sooner than it ends, unless two
/// multiply-adds of whole lines start each cycle. Where the loads of several steps share a line, the steps ask for one
/// line after the other of all that the next tile reads.
///
///   for tile: for k:                          for tile: for k:
///     acc[r] += a[tile + r, k] * x[k]   ->      acc[r] += a[tile + r, k] * x[k];
///                                               prefetch (&a[tile + rows, 0])[k * rows]
///
/// For arrays beyond a core's own caches, as long as what is asked for stays until the next tile. The loop `steps` over
/// steps of `reduction` gets annotations `prefetch_param_N` and `prefetch_walk_N`; the first `outside` of the loops
/// around the block are around the tile, and `part_loops` more over parts of its steps, of which it asks for the next
/// where a tile is too long. Rows of fewer than `least_run` bytes are left to hardware.
void ask_next_tile(RuleContext& context, const BlockRef& reduction, const LoopRef& steps, size_t outside,
                   size_t part_loops, std::int64_t least_run);

/// The same for a tile whose vectors walk short runs of the reduction, each of which lies elsewhere: `tile` is the
/// first of its loops.
void ask_next_runs(RuleContext& context, const BlockRef& reduction, const LoopRef& tile);

}  // namespace lathe
