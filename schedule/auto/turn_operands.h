#pragma once
#include <cstdint>
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// A copy of an operand that is to be turned around, by two of its own iters: what becomes contiguous, and what was.
struct TurnedCopy {
  BlockRef copy;
  size_t across, along;
};

/// Turns an operand around in a copy, so that vectors can walk it along the other way, where that is estimated to be
/// faster: along the reduction where few columns would leave most lanes idle, so that dot products come of it; along
/// the output where the operand lies along the reduction and many rows share the copy, or where no vector could walk
/// anything otherwise. Returns the copy where its loops are yet to be laid, since panels of it are better made where
/// tiles read them than all of it before: by turn_copy.
std::optional<TurnedCopy> turn_operand(RuleContext& context, const BlockRef& reduction);

/// Of a sum of products that no vectors walk, whose terms lie side by side in one operand along some of its steps: has
/// the other, where its elements are read many times, copied so that it lies along them too, as weights with their
/// channels first do not beside images with theirs last. Says whether it did.
bool align_steps(RuleContext& context, const BlockRef& reduction);

/// Lays the loops of such a copy where it stands; `width`, where not 0, is that of panels in which its last dimension
/// is to lie.
void turn_copy(RuleContext& context, const BlockRef& reduction, const TurnedCopy& turned, std::int64_t width = 0);

}  // namespace lathe
