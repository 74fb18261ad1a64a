#pragma once
#include "ir/stmt.h"

namespace lathe {

/// Is it proved that the operands of `reducer`, which is associative, may change places? A reducer of comparisons,
/// logic and selections alone, without constants, tells its operands apart by their order only: what holds for a
/// representative of every order (less, equal, a NaN, for each component) holds for all values. Of other reducers
/// nothing is proved. Zeros of either sign count as equal.
bool commutes(const Reducer& reducer);

}  // namespace lathe
