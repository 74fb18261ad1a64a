#pragma once
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// Makes an operand whose windows overlap along a loop around the tiles under blocks of that loop, where all of it
/// would leave a core's own caches: rows of a padded image, which would be written to far memory, and read from there.
///
///   for i in 0..226: for j: P[i, j] = ..            for io in 0..28:
///   for i in 0..224: tiles of C[i, ..] += P[i + r, ..]  ->   for i in 0..10: for j: P[8 * io + i, j] = ..
///                                                       for ii in 0..8: tiles of C[8 * io + ii, ..] += ..
///
/// Rows that two blocks read are made twice. `around` are the loops around a tile, the last of which stays as it is;
/// the one that is cut becomes two. Returns whether the maker was placed.
bool slide_copy(RuleContext& context, const BlockRef& maker, const BlockRef& reduction, std::vector<LoopRef>& around);

}  // namespace lathe
