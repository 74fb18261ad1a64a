#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// Conditions that hold of indices wherever the element there may be other than zero, as those of what a padded copy
/// has within its border: of a buffer that the program allocates, into which but for one block only zeros are stored.
/// None where nothing is known.
std::vector<Expr> nonzero_conditions(const Schedule& schedule, const Buffer& buffer, const std::vector<Expr>& at);

}  // namespace lathe
