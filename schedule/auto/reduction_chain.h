#pragma once
#include <initializer_list>
#include <optional>
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// A contraction whose results are scores along an axis, their extreme, weights from both, sums of weights, and a
/// contraction of weights over the axis again.
struct Chain {
  BlockRef scores, extreme, weights, mix;
  std::vector<BlockRef> sums;                    ///< of weights alone
  std::vector<BlockRef> between;                 ///< element-wise, from weights to mix
  size_t row = 0, axis = 0;                      ///< iters of `scores`
  size_t row_dimension = 0, axis_dimension = 0;  ///< of what it writes
  std::int64_t rows = 0, steps = 0;              ///< extents
};

/// Is the block a reduction by one of these?
bool reduces(const Block& block, std::initializer_list<BinaryOp> ops);
/// A Load of the buffer in the block's body; null when there is none.
const Load* load_of(const Block& block, const Buffer& buffer);
/// Of these one that all of the iters move, where the block reads the buffer at several places, as x @ x does.
const Load* load_along(const Block& block, const Buffer& buffer, std::initializer_list<size_t> iters);
/// The dimension of which the iter alone is the index; the rank where there is none.
size_t dimension_walked(const Block& block, const Load& load, size_t iter);
/// The iter that an index is, alone.
std::optional<size_t> iter_at(const Block& block, const Expr& index);

/// The chain around `extreme` of blocks that no rule has placed, of constant extents; nothing where there is none.
std::optional<Chain> find_chain(const RuleContext& context, const BlockRef& extreme);

}  // namespace lathe
