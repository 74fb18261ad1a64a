#pragma once
#include <optional>
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Lets a block write to a buffer of another memory space, and adds the block that copies from there.
///
///   for i: block C: C[i] = ..    ->    for i: block C: C_register[i] = ..
///                                      for i: block C_copy: C[i] = C_register[i]
///
/// Returns the copying block, which is what the C of before is now to its readers: tile it, and compute_at the block
/// under it.
///
/// Requires:
///   1. block runs over its whole domain, but for terms of sums that a predicate leaves out behind their first, each
///   iter by a serial loop of its own, with no other block in those loops
///   2. block writes one buffer, or that of several which `buffer` names, at its space iters and ordered ones, each
///   once, and is the only one to write it
BlockRef cache_write(Schedule& schedule, const BlockRef& block, const std::string& memory_space,
                     const std::optional<std::string>& buffer = std::nullopt);

}  // namespace lathe
