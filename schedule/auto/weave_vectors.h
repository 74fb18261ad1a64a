#pragma once
#include <optional>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// The most iterations of a short loop that is woven, where each of them takes another arm.
constexpr std::int64_t most_stacked = 16;

/// Weaves vectors of a few stores each into whole ones (interleave_stores), where a short loop lies along memory: as
/// few channels come to stand inside of pixels, and as tensors are stacked along the last axis.
///
///   for i in 0..100: for c in 0..2:               for io: vectorized for ii in 0..16: unrolled for c in 0..2:
///     out[i, c] = select(c < 1, f(i), g(i))  ->     out[io*16 + ii, c] = select(c < 1, f(..), g(..))
///
/// Applies to blocks that copy, and to those that choose by the short loop, of which nothing is left in its copies.
/// `loops` are the block's own and `iters` what they drive. False where there is no such loop.
bool weave_vectors(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                   const std::vector<LoopRef>& loops, const std::vector<size_t>& iters);

/// Makes one loop of two along which all accesses go on from one to the other, where rows are short and tensors are
/// stacked behind them: vectors that are woven then walk both. Says whether there were such.
bool join_woven_rows(RuleContext& context, const BlockRef& ref);

/// Will weave_vectors weave rows of the block that choose by each of their elements? Such rows are not to be cut into
/// columns, and their loop is to hold nothing else. Not where there are more elements than lanes that are copied as
/// they lie, and shuffles of two vectors take their places from memory.
bool weaves_rows(const RuleContext& context, const BlockRef& ref);

/// Of the values that an iter of the block goes through, the share for which the mask holds; nothing unless it hangs on
/// one iter that weave_vectors can unroll, or on a remainder of one, along which the block stores.
std::optional<double> woven_share(const Block& block, const Expr& mask);

}  // namespace lathe
