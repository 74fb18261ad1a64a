#pragma once
/// Long sums in parts, so that what the vectors of a tile walk stays near, or rounding errors stay small.
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Of a contraction whose panel (of the operand that vectors walk) leaves the first cache: so many steps of one reduce
/// iter at a time, for all tiles of a block of results, which take up their sums again with the next part.
///
///   for rows:                               for rows' blocks:
///     for tile: { for k: acc += a * b         for k's part:
///                 out = acc }          ->       for rows of the block: for tile:
///                                                 { for k of the part: acc += a * b;   out += acc }
struct StepCut {
  size_t reduce;                  ///< the iter that is cut
  std::int64_t steps;             ///< of it, in a part
  std::optional<size_t> blocked;  ///< a space iter along which the panel stands still
  std::int64_t block = 1;         ///< iterations of it that share a part of the panel
};

/// Nothing where the panel, of `width` vectors' columns, stays near as it is, or what multiplies does not wait for it.
/// Tiles walk `rows` of the results.
std::optional<StepCut> plan_step_cut(const RuleContext& context, const Block& block, const ReductionShape& shape,
                                     size_t vectors, size_t rows, const Buffer& operand, std::int64_t width);

/// The steps of a part of a sum of floats that one accumulator after another step would round too often: the error of a
/// sum grows with the number of its terms, that of sums of parts with the root of it (Higham, "The Accuracy of Floating
/// Point Summation", 1993, on pairwise sums). Nothing where the sum is short, or walks several iters.
std::optional<StepCut> plan_accurate_cut(const Block& block, const ReductionShape& shape);

/// The steps of a part of a long sum (plan_accurate_cut) of some rows by an operand from beyond a core's own caches,
/// where what a panel takes of it for a part lies scattered: a group of panels is packed for each part, stays in the
/// second cache, and tiles take up their sums with it. Nothing elsewhere.
std::optional<StepCut> plan_deep_cut(const RuleContext& context, const Block& block, const ReductionShape& shape);

/// Are sums of so many rows and steps taken in such parts, where their operand is one for which plan_deep_cut does?
bool takes_parts_outside(const Device& device, std::int64_t rows, std::int64_t steps);

/// Has a block of its own make parts of the sums, in registers, and the reduction add these up. Returns it: its iters
/// are those over results, then the parts and their steps.
BlockRef cut_sums(RuleContext& context, const BlockRef& reduction, const StepCut& cut);
/// Lays the loops out that add parts up in the registers of a tile. Returns the one over parts.
LoopRef add_in_tile(RuleContext& context, const BlockRef& total, size_t vectors, std::int64_t lanes);
/// Lays the loops out that add parts up, below those of the reader: one part of all sums, rows, vectors. Returns the
/// loop over rows.
LoopRef lay_parts(RuleContext& context, const BlockRef& total, size_t rows, size_t vectors, std::int64_t lanes);

}  // namespace lathe
