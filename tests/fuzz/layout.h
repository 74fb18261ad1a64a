#pragma once
#include <cstdint>
#include <vector>

#include "ir/func.h"
#include "tests/fuzz/random.h"

namespace lathe::testing {

/// How a parameter's array lies in memory, whatever extents a run gives it.
struct LayoutPlan {
  enum class Strides {
    compact,   ///< none in the buffer: row-major without gaps
    constant,  ///< the same numbers in every run, as for a part of a larger array
    runtime,   ///< all are scalar parameters
    classes    ///< scalar parameters but for those that compact order, 0 or 1 give in every run: what a call makes
  };
  struct Dimension {
    std::int64_t spread = 1;  ///< the stride is so many times what it need be
    std::int64_t gap = 0;     ///< elements left free after the dimension
    int direction = 1;        ///< -1: reversed; 0: broadcast
  };
  Strides strides = Strides::compact;
  std::vector<size_t> order;          ///< dimensions, outermost first
  std::vector<Dimension> dimensions;  ///< in the buffer's order
  std::int64_t offset = 0;            ///< of the buffer, in elements
  /// The array's lowest byte lies so many bytes past a multiple of 64; negative: where its guard page puts it.
  int misalignment = -1;
  bool element_aligned = true;  ///< else the buffer says that no alignment is known
};

/// One of the ways in which a caller's array may lie: dense, with gaps, transposed, reversed, unaligned, and for inputs
/// broadcast along a dimension.
LayoutPlan choose_layout(Random& random, bool is_input, DType dtype, size_t rank);

using Extents = std::vector<std::int64_t>;

/// The strides of an array so laid out, in elements. `shapes`: what its shape is in each run.
std::vector<std::int64_t> strides_for(const LayoutPlan& plan, const std::vector<Extents>& shapes, size_t run);

/// A compact buffer as the plan lays it out. Dimensions whose strides become scalar parameters get those in
/// `*variables`, the others null.
Buffer lay_out(const Buffer& buffer, const LayoutPlan& plan, const std::vector<Extents>& shapes,
               std::vector<VarRef>* variables);

}  // namespace lathe::testing
