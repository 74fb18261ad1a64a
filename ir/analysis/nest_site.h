#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/analysis/dependence.h"
#include "ir/visitor.h"

namespace lathe {

/// One access below a nest of loops, with what was bound and known between the nest and it.
struct Site {
  Region region;
  bool reads = false, writes = false;
  std::vector<Bounds::Entry> inner;
  std::vector<Expr> guards;
  Stmt block;
  /// The indices over loop variables, where the region is a point.
  std::vector<std::optional<Affine>> forms;
};

/// Every access of `body` to the buffers that are `considered`, under `inside`, which knows the loops of the nest.
std::vector<Site> collect_sites(const Stmt& body, const Bounds& inside,
                                const std::function<bool(const Buffer&)>& considered);

/// The test that most pairs pass: some index is the same function of the nest's loops and what is fixed around them at
/// both sites, but for what loops within add, whose ranges are known; one loop in it has moved, by more than those make
/// up for, and all others stand still.
bool plainly_apart(const std::vector<const For*>& nest, const std::vector<Direction>& directions, const Site& first,
                   const Site& second);

Expr renamed(const Expr& e, const Substitution& names);

}  // namespace lathe
