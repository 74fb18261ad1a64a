#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Runs what windows share (separate_windows) row by row beside the windows of that row, so that it stays in the first
/// cache: the loops of both nests, once they are tiled, are joined from the outermost on as far as the windows reach.
void join_windows(RuleContext& context);

/// Does a block sum windows of what this one writes, and of nothing besides?
bool feeds_windows(const Schedule& schedule, const BlockRef& block);

}  // namespace lathe
