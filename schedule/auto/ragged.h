#pragma once
#include <optional>
#include <vector>

#include "ir/stmt.h"

namespace lathe {

/// An iter along a reduction whose terms end where a choice says so by other iters or by data, as those over rows of a
/// ragged array or over a triangle do.
struct RaggedIter {
  size_t iter;             ///< its place in the block's list
  std::vector<size_t> by;  ///< the places of the iters that its end hangs on
  bool by_data = false;    ///< is its end loaded?
};

std::vector<RaggedIter> ragged_iters(const Block& block);

/// The iter whose end data says and whose steps are most at most, where there is one.
std::optional<size_t> ended_by_data(const Block& block);

/// Do steps end at other places for neighbours along the iter, as data says?
bool ends_by_data_along(const std::vector<RaggedIter>& ragged, size_t iter);

}  // namespace lathe
