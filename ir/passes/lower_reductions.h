#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Takes the inits out of reduction blocks.
///
///   for i: for k:                            for i:
///     block C(vi = i, vk = k):                 block C_init(vi = i): C[vi] = 0
///       init: C[vi] = 0               ->       for k:
///       C[vi] = C[vi] + A[vi, vk]                block C(vi = i, vk = k): C[vi] = C[vi] + A[vi, vk]
///
/// The init stands before the outermost loop that drives a reduce iter, in a copy of the loops below it that drive
/// space iters: so it also runs when the reduce domain is empty. Where one loop drives both kinds, the block is guarded
/// instead, by its reduce iters being at their start. Runs at `tiling`, when all loops have their final order, which
/// also settles comparisons of tuples (settle_ties.h), and, for a device that adds products under masks, lets sums skip
/// terms (masked_terms.h).
Func lower_reductions(const Func& func, const Device& device = {});

}  // namespace lathe
