#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Takes the init out of a reduction, to a block of its own before `loop`.
///
///   for i:                                for i:
///     for k: for j:                         for j: block C_init: C[i, j] = 0
///       block C                      ->     for k: for j:
///         init: C[i, j] = 0                   block C
///         C[i, j] = C[i, j] + ..                C[i, j] = C[i, j] + ..
///
/// The new block gets copies of the loops from `loop` inward that its space iters need. Returns it.
///
/// Requires:
///   1. block is a reduction with an init
///   2. loop is around block, with no other block between, and no loop around loop drives a reduce iter of block
///   3. no loop that drives a space iter below loop drives a reduce iter
///   4. from loop inward, the loops are proved to run each instance of block once
BlockRef decompose_reduction(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

}  // namespace lathe
