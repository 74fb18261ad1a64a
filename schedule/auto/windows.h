#pragma once
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/window_tile.h"

namespace lathe {

/// The windows of a reduction of few steps, and no function in each, without an operand that rows share, whose vectors
/// load neighbours: those of which rows share the most.
std::optional<Windows> overlapping_windows(const RuleContext& context, const Block& reduction,
                                           const ReductionShape& shape, size_t vectors);

}  // namespace lathe
