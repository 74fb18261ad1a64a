#pragma once
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/window_tile.h"

namespace lathe {

/// The windows of a reduction of few steps, and no function in each, whose vectors load neighbours: those of which rows
/// share the most. What rows share besides is weights of which all lanes have one, or each its own.
std::optional<Windows> overlapping_windows(const RuleContext& context, const Block& reduction,
                                           const ReductionShape& shape, size_t vectors);

}  // namespace lathe
