#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a sum and the squares about its mean, as a variance is made of, read their terms once: shifted by the mean of a
/// sample (shift_squares) neither waits for the other. Rows are left to the rules that vectorize sums and join those of
/// one row; down columns both are laid out here, to stream through memory side by side.
void single_pass(RuleContext& context);

}  // namespace lathe
