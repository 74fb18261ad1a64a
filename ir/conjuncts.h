#pragma once
#include <vector>

#include "ir/expr.h"

namespace lathe {

/// The operands of nested logical_ands, left to right; a null condition has none, and constant trues are left out.
std::vector<Expr> conjuncts_of(const Expr& condition);
/// The logical_and of all; null for none.
Expr conjunction(const std::vector<Expr>& conjuncts);

}  // namespace lathe
