#pragma once
/// Long sums over an operand that lies far, in parts that all tiles take while they are near.
#include <optional>
#include <vector>

#include "schedule/auto/cut_steps.h"

namespace lathe {

/// Of a contraction of few results, or of a block of its rows at a time, whose rows walk an array of the program that
/// leaves the second cache: each tile would walk all of it, a line or less of each step, and all of the other operand
/// besides. In parts, the tiles share what lies near, and ask meanwhile for the lines of the next part.
///
///   for tile of rows:                       for k's part: for tile of rows:
///     { for k: acc += a[row, k] * b[k]        { for k of the part: acc += a[row, k] * b[k], asking for the next part
///       out = acc }                    ->       out += acc }
///
/// (around which a loop over blocks of rows lies, where there are some).
struct FarParts {
  StepCut cut;
  Buffer far;
  std::int64_t ahead;           ///< elements from a part of it to the next
  std::int64_t block_rows = 0;  ///< the most of a block whose results stay near; 0 where all do

  /// The rows of each of the blocks, whole tiles, where cores share these out.
  std::int64_t rows_of_block(const Device& device, std::int64_t rows, std::int64_t tile_rows) const;
};

/// Nothing where lines come in time all the same, or parts would be too short to be worth loading and storing their
/// sums. Whether sums are cut, and where, does not depend on the number of cores, for they are rounded accordingly.
std::optional<FarParts> plan_far_parts(const RuleContext& context, const BlockRef& reduction,
                                       const ReductionShape& shape);

/// Has each core take all parts of its own results, where parts are the outermost of the loops around tiles: the first
/// of the others that has several iterations for each core is shared out. Where there is none, tiles take their parts
/// one by one. (Blocks of rows lie outside of all parts, and are shared out as they are.)
void share_parts(RuleContext& context, std::vector<LoopRef>& order);

/// Has the steps of a tile ask for the same steps of the next part.
void ask_next_part(RuleContext& context, const FarParts& parts, const LoopRef& steps);

}  // namespace lathe
