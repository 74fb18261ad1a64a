#pragma once
#include <optional>
#include <span>

#include "ir/analysis/interval.h"
#include "ir/stmt.h"

namespace lathe {

/// A loop's variable with the first and last value that it takes, over variables from further out.
struct LoopRange {
  VarRef variable;
  Affine low, high;
};
LoopRange loop_range(const For& loop);

/// The least or the greatest value that `a` takes while the loops `inner` (outermost first) run, over the variables of
/// none of them; nothing when it cannot be told. `bounds` knows the inner loops too.
std::optional<Affine> extreme(Affine a, std::span<const LoopRange> inner, bool greatest, const Bounds& bounds);

}  // namespace lathe
