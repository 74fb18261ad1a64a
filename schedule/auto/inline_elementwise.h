#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Inlines a producer without a reduction into all its consumers where that costs no more than storing and loading it:
/// a cast or an addition nearly always, an exponential only into one consumer that reads each element once, or where it
/// would pass over memory or the last cache, as in a softmax over the first axis of a large array.
///
///   1. never out of or into a block that is opaque or calls what is extern (is_sealed)
///   2. never what lies in a space that somebody chose: `global` is what tracing gives
///   3. what is joined of many operands into a block that reduces it or evaluates functions only where that costs less
///      than copying it part by part (cut_choices), as where the block reads a slice
///   4. a block's annotation `fuse` decides before the cost does: 0 keeps it, 1 inlines it
void inline_elementwise(RuleContext& context);

}  // namespace lathe
