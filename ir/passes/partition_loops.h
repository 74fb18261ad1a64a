#pragma once
#include "ir/func.h"

namespace lathe {

/// Splits loops where their conditions become decided, so that the main part runs without them.
///
///   for jo in 0..4:                          for jo in 0..3:
///     for j in 0..8 vectorized:                for j in 0..8 vectorized:
///       if jo*8 + j < 29: B[..] = ..    ->       B[..] = ..
///                                            for j in 0..8 vectorized:
///                                              if 24 + j < 29: B[..] = ..
///
/// Affine conditions of Ifs and masks count, each at the innermost serial or parallel loop that it depends on; loops
/// below it (unrolled, vectorized) are taken over their whole range. A serial loop directly around what is conditional,
/// or around loops of nothing else, is cut into pieces, without one that does nothing, and ends before iterations that
/// do nothing; a last piece of one iteration, in which conditions are the same wherever the loop runs, has that in the
/// place of the variable; a parallel one, or one that does more than that, gets a branch on its variable around the
/// least part that covers the conditions, and around serial loops of that alone. Symbolic extents are cut the same way.
/// Nested tiles get up to four bodies (main, two edges, corner); past a budget of code nothing is split, and loops only
/// end where nothing is left to do. A loop whose last tile may be shifted (mark_shiftable_tiles) keeps one body, and
/// that tile begins where it is whole:
///
///   for jo in 0..4 @{shiftable_tile: 8}:     for jo in 0..4:
///     for j in 0..8 vectorized:         ->     for j in 0..8 vectorized:
///       if jo*8 + j < 29: B[jo*8 + j] = ..       B[min(jo*8, 21) + j] = ..
///
/// Masks of loads cut no loop that says so (pad_temporaries), nor one of which they leave no iteration whole.
/// Runs before loops are vectorized, whose bodies would otherwise carry masks everywhere.
Func partition_loops(const Func& func);

}  // namespace lathe
