#pragma once
#include <string>
#include <vector>

#include "ir/reduction.h"
#include "schedule/residues.h"
#include "schedule/rewrite.h"

namespace lathe {

/// A sum that split_residues takes apart: its term has one factor that is zero but where residues match.
struct ResidueSum {
  Path path;       ///< to the block
  size_t own = 0;  ///< the level of the outermost of the block's loops
  ReductionOutput output;
  Reducer reducer;
  Expr term, choice;           ///< the factor is a choice between an element and 0
  Expr rest;                   ///< the term with 0 in the place of the choice, which is what is left out
  bool leaves_values = false;  ///< is that anything but 0?
  std::vector<Congruence> found;
};

/// Refuses what is none, by the conditions of split_residues.
ResidueSum match_residue_sum(const Schedule& schedule, const BlockRef& block, const std::string& application);

}  // namespace lathe
