#pragma once
#include <string>

#include "ir/stmt.h"
#include "schedule/rewrite.h"

namespace lathe {

/// A block that copies the whole of `from` to `to`, of the same shape, within its loops; cast where their types differ.
Stmt copy_nest(const std::string& name, const Buffer& from, const Buffer& to);

/// Refuses with `condition`, "nothing in the nest that holds block writes the buffer", unless that is so of `source`
/// and the block at the end of `path`.
void require_unwritten(const Schedule& schedule, const std::string& application, int condition, const Path& path,
                       const Buffer& source);

/// The program with `copy` before the nest that holds the block at the end of `path`, and `reader` in that block's
/// place. Requires what require_unwritten does of `source`.
Stmt copied_before(const Schedule& schedule, const std::string& application, int condition, const Path& path,
                   const Buffer& source, const Stmt& copy, const Stmt& reader);

/// Refuses with `condition`, "where the buffer is an allocation, all of it is proved to be written before", unless that
/// is so of what `body`, in which the whole of `source` is copied, reads of it.
void require_written(const Schedule& schedule, const std::string& application, int condition, const Path& path,
                     const Buffer& source, const Stmt& body);

}  // namespace lathe
