#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Moves a copy that was made for a tiled reduction under the outer loops of that reduction whose iterations each read
/// a part of their own, so that the part is read while it is near: padded channels of a depthwise convolution, one by
/// one.
///
///   for c: for i: for j: copy[c, i, j] = ..         for c:
///   for c: for tiles: C[c, ..] += copy[c, ..]   ->    for i: for j: copy[c, i, j] = ..
///                                                     for tiles: C[c, ..] += copy[c, ..]
///
///   1. only where each core has an iteration of these loops
///   2. only parts that fit half of the first cache, of copies that do not fit all of it; or half of a core's own, of
///      copies that do not fit all of these, as keys that are turned around head by head
///   3. a block's annotation `fuse` keeps it apart by 0
void near_copies(RuleContext& context);

/// Will a copy of `operand` for the reduction be made in parts that fit half of the first cache: those that the space
/// iters pick which each alone are an index of it?
bool copied_nearby(const RuleContext& context, const Block& reduction, const Buffer& operand);

}  // namespace lathe
