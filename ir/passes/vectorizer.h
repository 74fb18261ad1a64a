#pragma once
#include <unordered_set>

#include "ir/analysis/interval.h"
#include "ir/stmt.h"

namespace lathe {

/// The body of `loop` with its variable widened to `lanes` lanes, or null when some statement has no vector form and
/// cannot be run lane by lane on its own. `bounds` knows what holds around the loop. The body holds no vectors yet.
/// Storage that other iterations may write at the same time, `contended`, is not loaded where no lane is active.
Stmt vectorize(const For& loop, int lanes, const Bounds& bounds,
               const std::unordered_set<const BufferNode*>& contended = {});

}  // namespace lathe
