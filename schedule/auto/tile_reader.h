#pragma once
/// The block that stores what the tiles of a reduction hold.
#include <optional>
#include <utility>
#include <vector>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// For each iter of the reduction that indexes its output, the loop of `reader` that walks the same dimension; empty
/// when the reader does not read each element at its own loops' place.
std::vector<std::pair<size_t, LoopRef>> matched_loops(const Block& reduction, const Block& reader);

/// The one reader of the reduction, where it is element-wise, walks the same dimensions, and stores contiguously along
/// `vectors`, an iter of the reduction; nothing where a copy has to store the tiles.
std::optional<BlockRef> element_wise_reader(const RuleContext& context, const BlockRef& reduction,
                                            const ReductionShape& shape, const std::optional<size_t>& vectors);

}  // namespace lathe
