#pragma once
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/window_tile.h"

namespace lathe {

/// Steps of all iters together up to which a tile takes them in one body: of 9x9 two rows by one vector take as long as
/// a row by four in a loop, with AVX2 1.6 times as long.
inline constexpr std::int64_t most_window_steps = 64;

/// The windows of a reduction of few steps, and no function in each, whose vectors load neighbours: those of which rows
/// share the most. What rows share besides is weights of which all lanes have one, or each its own.
std::optional<Windows> overlapping_windows(const RuleContext& context, const Block& reduction,
                                           const ReductionShape& shape, size_t vectors);

}  // namespace lathe
