#pragma once
#include <string_view>

#include "ir/func.h"
#include "ir/program.h"

namespace lathe {

/// Reads .tir text. A mistake is an InputError(syntax) "FILE:LINE:COLUMN: expected X, found Y" with the line and a
/// caret.
Func parse_func(std::string_view text, std::string_view file = "<text>");
Program parse_program(std::string_view text, std::string_view file = "<text>");
/// "[i, i + 1), [2 * j - 3, +6)" over the given variables, by their names.
std::vector<Range> parse_ranges(std::string_view text, const std::vector<VarRef>& variables,
                                std::string_view file = "<text>");

}  // namespace lathe
