#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Sums windows of several axes one axis after the other, where nothing weighs their elements: pooling, box filters,
/// sums of squares around a pixel. A window of 13 x 13 has 26 steps then in the place of 169 (separable filters, e.g.
/// J. Serra, Image Analysis and Mathematical Morphology, 1982).
///
///   out[i, j] = max over r, s of x[i + r, j + s]    ->    window[i, v] = max over r of x[i + r, v]
///                                                         out[i, j] = max over s of window[i, j + s]
///
///   1. reductions of one value by one operator, over two constant axes and more
///   2. along the last axis of the results along which windows share what they read
///   3. where that saves more than storing the shared results, and reading them again, is estimated to cost
void separate_windows(RuleContext& context);

}  // namespace lathe
