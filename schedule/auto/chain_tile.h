#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// A contraction of a chain of reductions (reduction_chain.h), and the block that stores its tiles from registers,
/// under its loops over rows and columns.
struct ChainedBlock {
  BlockRef ref, reader;
  LoopRef row, column;
  size_t row_iter, column_iter;  ///< of the contraction
};

/// What the contractions of a chain have in common.
struct ChainedRows {
  std::int64_t all, block;  ///< rows, and those of a block
  std::int64_t lanes;       ///< the most
};

/// Runs a contraction in register tiles; returns how many columns one has, or 0 where the last has fewer.
std::int64_t tile_chained(RuleContext& context, const ChainedBlock& block, const ChainedRows& rows);

/// The deepest loop below `outside` others that an iter of the block is bound to, alone or with others.
std::optional<LoopRef> deepest_loop(const Schedule& schedule, const BlockRef& ref, size_t iter, size_t outside);

}  // namespace lathe
