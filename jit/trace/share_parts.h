#pragma once
#include <utility>
#include <vector>

#include "ir/expr.h"

namespace lathe {

/// Nodes of a body's value, those that are shared counted as often as they occur, from which on its parts are bound.
constexpr int most_value_nodes = 1000;

/// Binds each part that several others use, where the values are long: y = y * y + y, twelve times over in one body,
/// has some dozens of nodes but thousands of ways to them, and passes go most of these. What is bound comes before what
/// uses it.
///
///   (x * x + x) * (x * x + x) + (x * x + x)   ->   let part = x * x + x; part * part + part
std::vector<std::pair<VarRef, Expr>> share_parts(std::vector<Expr>& values);

}  // namespace lathe
