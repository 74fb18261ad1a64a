#pragma once
#include <string>

#include "ir/stmt.h"

namespace lathe {

/// A block that copies the whole of `from` to `to`, of the same shape, within its loops.
Stmt copy_nest(const std::string& name, const Buffer& from, const Buffer& to);

}  // namespace lathe
