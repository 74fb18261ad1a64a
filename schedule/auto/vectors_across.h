#pragma once
#include "schedule/auto/across_plan.h"

namespace lathe {

/// Copies the operand, the vectors' dimension last.
void stage_across(RuleContext& context, const BlockRef& reduction, AcrossPlan& plan);
/// Lays the buffer that the reduction writes, an allocation, out with the vectors' dimension last.
void turn_result(Schedule& schedule, const BlockRef& reduction, const AcrossPlan& plan);
/// Has the operand copied by panels, each as wide as a tile and compact; below the loop over panels where these are
/// enough for all cores.
void pack_across(RuleContext& context, const BlockRef& reduction, const AcrossPlan& plan, const LoopRef& panels);
/// Stores the results of a tile: `reader` has loops of its own over the tile's rows and columns.
void store_across(RuleContext& context, const BlockRef& reader, const AcrossPlan& plan, const LoopRef& row,
                  const LoopRef& column);

}  // namespace lathe
