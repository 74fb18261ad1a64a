#pragma once
/// How the loops around a block walk through memory.
#include "schedule/auto/block_model.h"
#include "schedule/schedule.h"

namespace lathe {

/// The element that an access names, over the loops around the block, but for a constant; null where it is not affine
/// in the iters. Fused loops, which are bound by quotient and remainder, are one walk again.
Expr walk_of(const Block& block, const Access& access);

/// Bytes that vectors read or write side by side in the innermost loops, before these go elsewhere; 0 for scalars.
std::int64_t bytes_side_by_side(const Schedule& schedule, const BlockRef& ref, const Access& access);

/// The same, where the last tile of a row may reach into the next row, which begins where this one ends.
std::int64_t bytes_row_by_row(const Schedule& schedule, const BlockRef& ref, const Access& access);

/// Does a block before `ref` under the loop read the buffer, which none under the loop writes? Otherwise the next row
/// is yet to be computed.
bool read_before(const Schedule& schedule, const BlockRef& ref, const LoopRef& loop, const Buffer& buffer);

}  // namespace lathe
