#pragma once
#include <optional>

#include "ir/analysis/interval.h"
#include "ir/device.h"

namespace lathe {

/// The two runs of a vector of places that begins in one row and ends in the next, and which lanes are in the first;
/// null where they are one.
struct Runs {
  Expr first, second, in_first;
};
/// Nothing where there are more, or none that lie in rows. Multiples of a row may be missing where only the place
/// within it is asked for.
std::optional<Runs> runs_of(const Expr& place, const Bounds& bounds);

/// Are such vectors stored and loaded as two runs?
bool cuts_runs(const Device& device);

}  // namespace lathe
