#pragma once
#include <vector>

#include "ir/passes/lifetimes.h"

namespace lathe {

/// For each allocation the one whose memory it can take over while that is still read, or its own number: the first of
/// a chain of computations in place.
///
///   for i: u[i] = t[i] * 2         u takes over t, when nobody reads t later
///
/// Two share where their type, shape, strides and space are the same, and each element of the old one is used for the
/// last time before the same element of the new one is written: shown from the index maps, which tell the iterations of
/// every loop around both apart. What cannot be shown is not shared.
std::vector<size_t> find_shared(const Func& func, const std::vector<Allocation>& allocations);

}  // namespace lathe
