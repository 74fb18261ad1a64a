#pragma once
/// Contractions of two operands, by what their axes do.
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/stmt.h"

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

}  // namespace lathe
