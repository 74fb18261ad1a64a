#pragma once
/// What vectorize, unroll, parallel and bind have in common.
#include <string>
#include <vector>

#include "schedule/rewrite.h"
#include "schedule/schedule.h"

namespace lathe {

Stmt with_kind(const For& loop, ForKind kind);

/// Refuses with condition `number` unless the loop's extent is a constant of at least 1.
void require_constant_extent(const Schedule& schedule, const std::string& application, int number, const Stmt& loop);
/// Refuses with condition `number` if an iter below the loop that is not a space iter is bound to an expression of it.
void require_space_iters(const Schedule& schedule, const std::string& application, int number, const Stmt& loop);
/// Refuses with condition `number` unless no iteration of the loop that `path` ends with touches what another one
/// writes.
void require_lanes_apart(const Schedule& schedule, const std::string& application, int number, const Path& path);
/// Refuses unless the iterations of the loop that `path` ends with may run at once, each by a worker of its own:
///   first      no reduce, ordered or opaque iter below is bound to an expression of loop
///   first + 1  a block below that does not use loop writes only buffers that nothing outside of loop reads or writes
///   first + 2  no two iterations meet in an element that one of them writes, but for buffers that nothing outside of
///              loop uses and that each iteration writes before it reads them, so that each has its own
/// Returns those buffers: memory passes must keep the promise.
std::vector<Buffer> require_independent_iterations(const Schedule& schedule, const std::string& application, int first,
                                                   const Path& path);

}  // namespace lathe
