#pragma once
#include "ir/expr.h"

namespace lathe {

/// Is every value of `e`, a float, certainly one of `narrow`'s as well, so that a cast to it rounds nothing? What was
/// widened from it is, and extremes, choices and signs of such.
bool fits_exactly(const Expr& e, DType narrow);

}  // namespace lathe
