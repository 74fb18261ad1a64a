#pragma once
#include <string>
#include <vector>

#include "ir/device.h"

namespace lathe {

/// The host's LLVM features that are on, sorted, after `mask` (backends/cpu/cpu.h has its grammar).
std::vector<std::string> masked_host_features(const std::string& triple, const std::string& mask);

/// Fills in what follows from triple, cpu and features: vectors, registers, fma.
void describe_vector_unit(Device& device);

/// The dot products that have instructions on the device, as its intrinsics.
std::vector<Func> dot_products(const Device& device);

/// Caches that core 0's data takes, nearest first.
std::vector<CacheLevel> host_caches();
/// Cores that this process may use: its affinity mask, and its control group's quota rounded up.
int usable_cores();

}  // namespace lathe
