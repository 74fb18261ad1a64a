#pragma once
#include <string_view>

#include "ir/func.h"
#include "ir/program.h"

namespace lathe {

/// Reads .tir text. A mistake is an InputError(syntax) "FILE:LINE:COLUMN: expected X, found Y" with the line and a
/// caret.
Func parse_func(std::string_view text, std::string_view file = "<text>");
Program parse_program(std::string_view text, std::string_view file = "<text>");

}  // namespace lathe
