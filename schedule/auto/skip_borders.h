#pragma once
#include <optional>
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// A tile's loops over steps, outermost first, and what it holds: how many of an iter's results, and the loop over
/// these, which is unrolled.
struct BorderedTile {
  std::vector<LoopRef> steps;
  std::optional<LoopRef> row;
  std::optional<size_t> row_iter;
  std::int64_t rows = 1;
  size_t vector_iter = 0;
  std::int64_t width = 1;
};

/// Leaves out the steps of a tile's sum that read nothing but zeros around a padded operand, where these are a part of
/// all that is worth a condition: rows of a window above and below an image, whole tiles beside it, and, where one tile
/// has whole rows, each result's steps beside the image, which are known once the window's row is unrolled.
void skip_borders(RuleContext& context, const BlockRef& reduction, const BorderedTile& tile);

}  // namespace lathe
