#pragma once
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/dot_products.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/turn_operands.h"
#include "schedule/auto/vectors_across.h"

namespace lathe {

/// Cuts a reduction into tiles whose sums are kept in registers, below the loops of the block that stores them: vectors
/// along what the shape says, or dot products along the reduction. Refuses by throwing, half done (`attempt`).
/// Lays the loops of an operand's turned copy out as well, under the loop over panels where these divide the columns.
void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const std::optional<TurnedCopy>& turned = std::nullopt);
/// The same by instructions that take a group of steps at a time, for operands that are staged for the plan.
void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape, const DotPlan& plan);
/// The same with vectors across memory.
void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const AcrossPlan& plan);

}  // namespace lathe
