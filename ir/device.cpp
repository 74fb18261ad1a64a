#include "ir/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lathe {

bool Device::has_feature(const std::string& feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

const MemorySpace* Device::find_space(const std::string& name) const {
  for (const MemorySpace& space : spaces)
    if (space.name == name) return &space;
  return nullptr;
}

std::string Device::fingerprint() const {
  std::string text = fmt::format("{} {} {} {} vectors {}x{} masks {} fma {} {}x{} loads {} cores {} caches", name,
                                 triple, cpu, fmt::join(features, ","), vector_registers, vector_bits, mask_registers,
                                 fused_multiply_add, fma_per_cycle, fma_latency, loads_per_cycle, cores);
  for (const CacheLevel& cache : caches)
    text += fmt::format(" {}/{}/{}{}", cache.bytes, cache.ways, cache.line_bytes, cache.shared ? "s" : "");
  text += " spaces";
  for (const MemorySpace& space : spaces)
    text += fmt::format(" {}:{}:{}:{}:{}", space.name, space.unit_bits, space.max_simd_bits, space.capacity_bits,
                        static_cast<int>(space.addressing));
  return text;
}

}  // namespace lathe
