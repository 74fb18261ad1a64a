#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Runs a chain of reductions over one axis in blocks of rows: a contraction whose results are scores along the axis,
/// their maximum, weights from both, the weights' sum, and a contraction of the weights over the axis again. A block of
/// scores and weights stays in the nearest memory, and the whole matrix of them is nowhere. Where the axis is long,
/// blocks of it run one behind another, with what was summed scaled as the maximum rises (fuse_reductions). The chain
/// is known by its reducers and index maps; what is element-wise between, as scales and masks, was inlined before.
void chain_reductions(RuleContext& context);

}  // namespace lathe
