#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Runs what windows share (separate_windows) row by row beside the windows of that row, so that it stays in the first
/// cache: the loops of both nests, once they are tiled, are joined from the outermost on as far as the windows reach.
void join_windows(RuleContext& context);

/// Does the block sum windows of what another one sums, or of a copy of that?
bool sums_shared_windows(const Schedule& schedule, const BlockRef& block);

/// Does another block sum windows of the results of this one, and nothing besides?
bool are_summed_in_windows(const Schedule& schedule, const BlockRef& block);

}  // namespace lathe
