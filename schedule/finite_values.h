#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Is the value of `e`, in a block of the schedule, proved to be finite or NaN? Follows loads to the one block that
/// writes what they read: bounded functions, constants, and quotients of those by what is proved to be at least 1, as
/// the sum of exp(x - m) over an axis is where m is the maximum of x over it.
bool proved_finite(const Schedule& schedule, const Expr& e);

}  // namespace lathe
