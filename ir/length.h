#pragma once
#include "ir/expr.h"

namespace lathe {

/// Has it more nodes than that, those that are shared counted as often as they occur? What is loaded or called counts
/// as one.
bool is_longer(const Expr& e, int nodes);

}  // namespace lathe
