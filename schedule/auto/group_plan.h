#pragma once
/// Which axes of a product of two operands belong together as rows, columns and sums of a product of matrices, and
/// where arrays lie best.
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/auto/product.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// How an array is to lie: a dimension for each group, and for axes that stay apart. Those that do and lie as one in
/// the array that is copied are one there.
struct Layout {
  std::vector<Axes> apart;
  std::vector<Axes> groups;
  std::vector<Axes> dimensions;  ///< all of these, outermost first; vectors walk the last group
  bool copied = false;           ///< it does not lie so yet
};

/// How the product is to be computed: which axes stay apart, which become one, and where arrays lie for that.
struct Grouping {
  Axes apart;
  std::vector<Axes> joined;  ///< rows, columns, and the batch that vectors walk, where they do
  std::vector<Axes> summed;  ///< one group, or loops within each other
  Layout left, right, result;
  std::int64_t times = 1, rows = 1, columns = 1, depth = 1;
  enum class Vectors { columns, summed, batch } vectors = Vectors::columns;  ///< what vectors walk
  double cycles = 0;                                                         ///< estimated, copies included
};

/// The grouping of fewest cycles, where that is faster than what vectors can walk of the arrays as they lie.
std::optional<Grouping> plan_grouping(const RuleContext& context, const BlockRef& reduction, const Product& product);

}  // namespace lathe
