#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies operands of tiled reductions part by part, under the loop around the tiles that reads a part of its own each
/// iteration: a copy that does not fit a core's own caches would else be written to memory, and read from there again.
///
///   for i: for j: for k: copy[i, k, j] = x[k, i, j]        for i:
///   for i: tiles of out[i, ..] += copy[i, k, j] * ..   ->    for k: for j: copy[k, j] = x[k, i, j]
///                                                            tiles of out[i, ..] += copy[k, j] * ..
///
/// For a reduction whose tiles stand. A part stays in the cache, and whole lines of the array are read for it. Returns
/// what the reduction then reads in the place of `operand`.
Buffer part_copies(RuleContext& context, const BlockRef& reduction, Buffer operand = nullptr);

/// Is a copy so large that it is made so where that can be done?
bool wants_parts(const Device& device, const Buffer& copied);

}  // namespace lathe
