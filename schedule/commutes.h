#pragma once
#include "ir/stmt.h"

namespace lathe {

/// Is it proved that the operands of `reducer`, which is associative, may change places? A reducer of comparisons,
/// logic and selections alone, without constants, tells its operands apart by their order only: what holds for a
/// representative of every order (less, equal, a NaN, for each component) holds for all values. Other reducers commute
/// where their results are the same expressions with the operands exchanged, but for the order of sums, products,
/// minima and maxima, and of differences whose sign does not matter. Zeros of either sign count as equal.
bool commutes(const Reducer& reducer);

/// May the elements that a reduction folds be taken in another order than that of its loops? So they may where one
/// operator folds numbers, and by extremes of numbers (extreme_of_numbers), whose order a NaN alone tells.
bool folds_in_any_order(const Reducer& reducer);

}  // namespace lathe
