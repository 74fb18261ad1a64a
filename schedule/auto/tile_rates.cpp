#include "schedule/auto/tile_rates.h"

namespace lathe {

Rates rates_of(const Device& device, std::int64_t vector_bits) {
  // One unit of 512 bits is two of 256 that join (AMD's optimization guide for Zen 4, 2.10; Intel's for client cores).
  const bool joined = device.fma_per_cycle == 1 && device.vector_bits == 512;
  const bool narrow = vector_bits * 2 <= device.vector_bits;
  if (joined) return {narrow ? 2.0 : 1.0, narrow ? 2.0 : 1.0, narrow ? 1.0 : 0.5, 1, narrow ? 1.06 : 1.0};
  const auto arithmetic = static_cast<double>(device.fma_per_cycle),
             loads = static_cast<double>(device.loads_per_cycle);
  return {arithmetic, loads, 1.0, arithmetic > 1 ? 2.5 : 1.0};
}

double wanted_chains(const Device& device, const Rates& rates) {
  return device.fma_latency * rates.arithmetic;
}

double body_penalty(double cycles) {
  return cycles < 1e6 ? 0.02 : cycles < 1e7 ? 0.005 : 0.002;
}

}  // namespace lathe
