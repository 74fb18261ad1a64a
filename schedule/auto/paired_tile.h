#pragma once
#include <cstdint>

#include "ir/device.h"

namespace lathe {

/// What is summed where vectors walk both operands, as in a product of matrices for each lane.
struct PairedExtents {
  std::int64_t rows = 1, others = 1;  ///< of one operand and of the other
  std::int64_t columns = 1;           ///< that vectors walk
  std::int64_t depth = 1;             ///< steps of the reduction
};

/// Rows of one operand and of the other whose sums are in registers, in vectors of so many lanes.
struct PairedTile {
  std::int64_t rows = 1, others = 1, lanes = 1;
  double cycles = 0;  ///< estimated, of the whole contraction
};

/// The tile of fewest estimated cycles.
PairedTile choose_paired_tile(const Device& device, std::int64_t lanes, int bits, const PairedExtents& extents);

}  // namespace lathe
