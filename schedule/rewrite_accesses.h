#pragma once
/// Changing where the elements of a buffer lie: for primitives that give an allocation another layout.
#include <functional>
#include <string>
#include <vector>

#include "schedule/rewrite.h"

namespace lathe {

/// A use of a buffer that rewrite_accesses could not rewrite.
struct UnclearUse {
  Stmt block;  ///< null: there is none
  std::string note;
  explicit operator bool() const { return bool(block); }
};
/// An address, vector indices, a view or a hint of `buffer`.
UnclearUse find_unclear_use(const Stmt& s, const Buffer& buffer);

/// New indices for old ones, in the innermost block around the access.
using IndexMap = std::function<std::vector<Expr>(const Block&, const std::vector<Expr>&)>;

/// `s`, a statement of `func`, with `made` in the place of `old`, wherever it is allocated, loaded or stored; indices
/// are simplified, and regions inferred again.
Stmt rewrite_accesses(const Func& func, const Stmt& s, const Buffer& old, const Buffer& made, const IndexMap& map);

}  // namespace lathe
