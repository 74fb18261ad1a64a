#pragma once
#include <string>

#include "ir/func.h"
#include "ir/program.h"

namespace lathe {

/// The .tir text of a thing. Names are made unique where two variables or buffers share one, so that
/// parse_func(print(f)) is structurally equal to f. Grammar: ir/README.md.
std::string print(const Func& func);
std::string print(const Program& program);
/// Fragments, for messages: free variables and buffers appear by name.
std::string print(const Stmt& s);
std::string print(const Expr& e);
std::string print(const Region& region);
/// "[i, +1)"
std::string print(const Range& range);

/// As print, with a line comment `# <- note` behind the first line of the statement `culprit`.
std::string print_marked(const Func& func, const Stmt& culprit, const std::string& note);

}  // namespace lathe
