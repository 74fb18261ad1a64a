#pragma once

#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Estimated cycles of a reduction in tiles of registers, what casts of elements one by one add to them, and of it in
/// dot products.
struct TileCosts {
  RegisterTile tile;
  double tiles = 0, casts = 0, dots = 0;
};

/// What vectors along the columns, or along the steps with rows beside columns, would take; nothing for other shapes.
std::optional<TileCosts> tile_costs(const RuleContext& context, const Block& block, const ReductionShape& shape);

/// The step that dot products walk and the columns, of a shape that has both.
struct DotAxes {
  size_t depth, columns;
};
std::optional<DotAxes> dot_axes(const Block& block, const ReductionShape& shape);

}  // namespace lathe
