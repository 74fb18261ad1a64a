#pragma once
/// Contractions of two operands as products of matrices: which of their axes belong together, and where arrays lie
/// best.
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

using Axes = std::vector<size_t>;  ///< iters of the reduction

/// An operand or a result: the elements that it moves with each iter.
struct Walked {
  Buffer buffer;
  std::vector<std::int64_t> strides;
};

/// A contraction of two operands, each indexed by iters alone.
struct Product {
  Walked left, right, result;
  std::vector<Buffer> scattered;      ///< operands whose strides are known at run time alone
  Axes batch, rows, columns, summed;  ///< in all three; in the left one and the result; the right one; both operands
  std::vector<std::int64_t> extents;

  std::int64_t count(const Axes& axes) const {
    std::int64_t product = 1;
    for (const size_t i : axes) product *= extents[i];
    return product;
  }
};

/// Nothing when the block is no sum of such products, or an extent or a stride is no constant.
std::optional<Product> find_product(const Block& block);

/// Does the array walk the axes, in this order, as one?
bool lies_as_one(const Walked& access, const Axes& axes, const Product& product);

/// How an array is to lie: the axes that stay apart, then a dimension for each group. Those that stay apart and lie as
/// one in the array that is copied are one there.
struct Layout {
  std::vector<Axes> apart;
  std::vector<Axes> groups;
  bool copied = false;  ///< it does not lie so yet
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
