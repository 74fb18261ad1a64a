#pragma once
/// What it takes to copy the arrays of a contraction to where its axes lie in groups.
#include <cstdint>
#include <vector>

#include "schedule/auto/product.h"

namespace lathe {

/// Runs of every second to fourth element are picked out of whole vectors; the part of a cycle that each step takes for
/// an element besides.
inline constexpr std::int64_t widest_step = 4;
inline constexpr double picked_cycles = 0.15;

/// Cycles of an element that is copied to or from an array that lies by `groups`, the last of which is contiguous, in
/// the caches.
double copy_cycles(const Walked& access, const std::vector<Axes>& groups, const Product& product, bool result);

}  // namespace lathe
