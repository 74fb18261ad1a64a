#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a reduction over windows write its results in the order in which its operand lies, where vectors would else find
/// neighbours in the one or in the other: rows whose channels come last, of which results are wanted channel by
/// channel. What reads them, or a copy, turns them around.
///
///   out[c, i, j] += x[i + r, j + s, c] * w[c, r, s]   ->   sum[i, j, c] += x[i + r, j + s, c] * w[c, r, s]
///                                                          out[c, i, j] = sum[i, j, c]
///
/// Runs once padding is apart that vectors would meet in part, and before what stands in the way of vectors along the
/// results is copied.
void lay_results(RuleContext& context, const BlockRef& reduction);

/// Has channels come last where that lets vectors walk these: of a reduction whose every result has windows of its own,
/// as a depthwise convolution's, and whose rows are short and read often. The operand is turned around in a copy;
/// lay_results does the rest.
///
///   out[c, i, j] += x[c, i + r, j + s] * w[c, r, s]   ->   copy[i, j, c] = x[c, i, j]
///                                                    out[c, i, j] += copy[i + r, j + s, c] * w[c, r, s]
void turn_channels(RuleContext& context, const BlockRef& reduction);

/// The other way round, where nothing tiles a reduction as its operands lie: copies the one operand that moves along
/// the result's contiguous axis, by more than one element a step, so that it is contiguous along it too.
///
///   out[f, i, j] += x[i + r, j + s, c] * w[c, r, s, f]   ->   copy[i, c, j] = x[i, j, c]
///                                                             out[f, i, j] += copy[i + r, c, j + s] * w[c, r, s, f]
///
/// Says whether it did.
bool lay_operand(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
