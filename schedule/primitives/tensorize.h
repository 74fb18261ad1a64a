#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Marks the tiles of a block as instances of an instruction, which a device that has it uses in their place.
///
///   block C_tile(vi, vj, vk):                                        block C_tile(vi, vj, vk) @{tensorize: "dot4"}:
///     for t in 0..4:                                           ->      for t in 0..4:
///       block C: C[vi, vj] += i32(a[vi, vk*4 + t]) * i32(b[..])          block C: ..
///
///   func dot4(a: i8[4], b: i8[4], c: i32[]) { for t in [0, 4) { .. c[] + cast<i32>(a[t]) * cast<i32>(b[t]) .. } }
///
/// The intrinsic is described by a Func (ir/analysis/match_intrinsic.h): that is what it means, and what stays in the
/// program. A device whose description lists the intrinsic makes its instruction of the tile when it lowers, if the
/// tile is still an instance; every other one, and the interpreter, runs what stands there.
///
/// Requires:
///   1. block has iters and holds others, as blockize makes it, and neither allocates nor has an init
///   2. block is not marked already
///   3. block's body is the same as the intrinsic's node for node
void tensorize(Schedule& schedule, const BlockRef& block, const Func& intrinsic);

/// The name of the intrinsic that the tiles of a block are instances of; empty for none.
std::string tensorized(const Block& block);

}  // namespace lathe
