#pragma once
/// Contractions whose steps the device's dot products take several at a time.
#include <optional>
#include <string>
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// A sum of products that an intrinsic of the device computes `group` steps of one iter at a time.
struct DotPlan {
  Func intrinsic;
  std::int64_t group = 1;
  size_t step = 0, vectors = 0, rows = 0;  ///< iters: of the reduction, along the vectors, of the other factor
  BlockRef copy;                           ///< lays out the factor that the vectors walk; set by stage_dot
};

/// The blocks that do nothing but widen a factor of the sum of products for this block, where an intrinsic takes the
/// narrow one.
std::vector<BlockRef> widening_makers(const RuleContext& context, const BlockRef& reduction);

/// Nothing where the device has no such intrinsic, or where packing the operands would cost more than it saves.
std::optional<DotPlan> plan_dot(const RuleContext& context, const BlockRef& reduction);

/// Makes the operands ready: steps padded to whole groups, bytes of the signedness that the intrinsic takes, the other
/// factor contiguous along the steps, and a copy of the vectors' factor, which pack_groups lays out.
void stage_dot(RuleContext& context, const BlockRef& reduction, DotPlan& plan);

/// Lays the copy out in groups: `b_copy[k, j]` becomes `b_copy[k // 4, j, k % 4]`, made by vectors of `lanes`.
/// With a `panel_width` panels of so many columns lie one behind another.
void pack_groups(RuleContext& context, const BlockRef& reduction, const DotPlan& plan, std::int64_t lanes,
                 std::int64_t panel_width);

/// Makes the innermost loop of the reduction, over the steps of a group, the intrinsic's instance.
void mark_groups(RuleContext& context, const LoopRef& steps, const DotPlan& plan);

}  // namespace lathe
