#pragma once
#include "schedule/auto/contraction.h"
#include "schedule/auto/dot_products.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/vectors_across.h"

namespace lathe {

/// Cuts a reduction into tiles whose sums are kept in registers, below the loops of the block that stores them: vectors
/// along what the shape says, or dot products along the reduction. Refuses by throwing, half done (`attempt`).
void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape);
/// The same by instructions that take a group of steps at a time, for operands that are staged for the plan.
void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape, const DotPlan& plan);
/// The same with vectors across memory.
void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const AcrossPlan& plan);

}  // namespace lathe
