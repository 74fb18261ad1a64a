#pragma once
/// What vectorize, unroll and parallel have in common.
#include <string>

#include "schedule/rewrite.h"
#include "schedule/schedule.h"

namespace lathe {

Stmt with_kind(const For& loop, ForKind kind);

/// Refuses with condition `number` unless the loop's extent is a constant of at least 1.
void require_constant_extent(const Schedule& schedule, const std::string& application, int number, const Stmt& loop);
/// Refuses with condition `number` if an iter below the loop that is not a space iter is bound to an expression of it.
void require_space_iters(const Schedule& schedule, const std::string& application, int number, const Stmt& loop);

}  // namespace lathe
