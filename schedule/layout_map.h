#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/expr.h"

namespace lathe {

/// Where an element goes: new indices as functions of the old ones.
struct LayoutMap {
  std::vector<VarRef> from;  ///< one a dimension of the old layout
  std::vector<Expr> to;      ///< one a dimension of the new layout
};

/// Every element of an array of so many dimensions where it is: "i0, i1 -> i0, i1".
LayoutMap same_layout(size_t rank);
/// A dimension before, or behind, all others.
LayoutMap moved_first(size_t rank, size_t dimension);
LayoutMap moved_last(size_t rank, size_t dimension);

/// "i, j -> i // 4, j, i % 4", in the expressions of the .tir format. A mistake is an InputError.
LayoutMap parse_layout_map(std::string_view text);
std::string print(const LayoutMap& map);

}  // namespace lathe
