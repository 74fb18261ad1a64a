#pragma once
#include <string>
#include <vector>

#include "ir/expr_node.h"

namespace lathe {

/// [min, min + extent).
struct Range {
  Expr min, extent;
};

/// Where a region came from, which decides whether it may be trusted.
enum class Provenance : std::uint8_t {
  inferred,  ///< computed by analysis: always right
  checked,   ///< given by the user and guarded at run time
  trusted    ///< given by the user and not guarded, by explicit choice
};

/// A box of a buffer, one range a dimension, as a function of a block's iters.
struct Region {
  Buffer buffer;
  std::vector<Range> ranges;
  Provenance provenance = Provenance::inferred;
  std::string block;  ///< of a hint: where it was given; inferred with a block: proved when given
};

/// The whole of `buffer`.
Region full_region(const Buffer& buffer);
/// The single element at `indices`.
Region point_region(const Buffer& buffer, const std::vector<Expr>& indices);

}  // namespace lathe
