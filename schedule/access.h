#pragma once
/// Which elements blocks touch, as functions of the loops around them.
#include <optional>
#include <utility>
#include <vector>

#include "ir/func.h"

namespace lathe {

/// e = constant + sum of coefficient * atom, where an atom is a variable or whatever is not affine. Atoms are told
/// apart by structure.
struct LinearForm {
  std::vector<std::pair<Expr, std::int64_t>> terms;
  std::int64_t constant = 0;
};
LinearForm linear_form(const Expr& e);
/// a - b when that is a constant.
std::optional<std::int64_t> constant_difference(const Expr& a, const Expr& b);
/// e = coefficient * variable + rest with a constant coefficient and a rest without the variable; nothing otherwise.
std::optional<std::pair<std::int64_t, Expr>> split_linear(const Expr& e, const VarRef& variable);

/// The dimension whose index is the iter alone, where no other uses it.
std::optional<size_t> dimension_of(const std::vector<Expr>& indices, const VarRef& iter);

/// A variable and its domain, of a loop that a range is to be freed from.
struct Axis {
  VarRef variable;
  Range domain;
};

/// The union of `range` over all values of `inner`, given outermost first; nothing when it is not an interval that an
/// affine expression bounds.
std::optional<Range> eliminate(Range range, const std::vector<Axis>& inner);
/// The same for a region; dimensions that cannot be bounded become the whole of the buffer's.
Region eliminate(const Region& region, const std::vector<Axis>& inner);
/// A region that covers both, as tight as constants tell.
Region bounding_region(const Region& a, const Region& b);

/// What one instance of the block reads and writes, over its iters, from its init and body: point regions where an
/// index is a function of the iters alone, whole dimensions where it depends on data.
std::vector<Region> infer_reads(const Block& block);
std::vector<Region> infer_writes(const Block& block);
/// The block with `reads` and `writes` inferred again; hints stay, in the place of what would be inferred.
Stmt with_inferred_regions(const Block& block);

/// The statement with the regions of every block that has iters, or a predicate, and holds others taken anew from what
/// those declare; hints of other provenance stay.
Stmt with_tile_regions(const Stmt& s);
/// Does such a block stand in it?
bool has_tiles(const Stmt& s);

/// Is it the constant zero, of either sign?
bool is_constant_zero(const Expr& e);

/// Adds condition to what a block's predicate says.
Stmt add_predicate(const Block& block, const Expr& condition);

}  // namespace lathe
