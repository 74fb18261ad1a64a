#pragma once
/// Region hints: what a user says that a block touches of a buffer (annotate_buffer_access), and how it stays true.
#include <optional>
#include <string>
#include <vector>

#include "ir/analysis/verify_rules.h"
#include "schedule/rewrite.h"

namespace lathe {

/// The steps from the start of a Func to the body of the block that `path` ends with.
std::vector<Step> steps_into(const Path& path);

/// The accesses of a block to one buffer, of one kind, below inner blocks too.
std::vector<BlockAccess> accesses_of(const Block& block, const Buffer& buffer, bool writes);

/// `region` with every range but one widened to its whole dimension.
Region only_dimension(const Region& region, size_t dimension);

/// Does every access of the block at the end of `path` lie in the hint? Asked dimension by dimension, with indices in
/// normal form, so that one is proved wrong with a witness wherever numbers decide it.
std::vector<Decision> decide_hint(const Func& func, const Path& path, const Region& hint, bool writes);

/// The hint of a buffer on a block, or null.
const Region* find_hint(const Block& block, const Buffer& buffer, bool writes);
bool has_hints(const Block& block);

/// Checks a program that a primitive made against the one before: hints whose block has changed must be proved again,
/// those that an inspector picked must stand where it does, and none may get lost with a block or on the way. Refuses
/// as condition 0 of the application, "every hint stays true".
void require_hints_kept(const Schedule& schedule, const Stmt& after, const std::string& application);

}  // namespace lathe
