#pragma once
#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "ir/expr.h"

namespace lathe::python {

/// What a body chooses of Python's numbers alone has a type of its own until it meets an element, to whose type it then
/// gives way as the numbers would: x[i] * lathe.where(i < 3, 1.0, 0.5) is of x's type, and 0.5 as exact as that has it.

/// lathe.where, of tensors or in a body.
nanobind::object choose(nanobind::handle condition, nanobind::handle a, nanobind::handle b);

/// The operands of an operator between an expression and what stands beside it: of one type where one of them is weak,
/// or arrays of theirs would promote.
std::pair<Expr, Expr> beside(const Expr& expr, nanobind::handle other);

}  // namespace lathe::python
