#include <llvm/ADT/StringRef.h>
#include <llvm/TargetParser/Host.h>

#include <cstdlib>

#include "backends/cpu/cpu.h"
#include "backends/cpu/features.h"
#include "ir/buffer.h"

namespace lathe {

Device host_device() {
  const char* mask = std::getenv("LATHE_CPU_FEATURES");
  return host_device(mask ? mask : "");
}

Device host_device(const std::string& feature_mask) {
  Device device;
  device.name = "cpu";
  device.triple = llvm::sys::getProcessTriple();
  device.cpu = llvm::sys::getHostCPUName().str();
  device.features = masked_host_features(device.triple, feature_mask);
  describe_vector_unit(device);
  device.intrinsics = dot_products(device);
  device.cores = usable_cores();
  device.caches = host_caches();
  const std::int64_t register_bits = std::int64_t{device.vector_registers} * device.vector_bits;
  device.spaces = {{.name = space::global, .max_simd_bits = device.vector_bits},
                   {.name = space::worker, .max_simd_bits = device.vector_bits},
                   {.name = space::registers,
                    .max_simd_bits = device.vector_bits,
                    .capacity_bits = register_bits,
                    .addressing = Addressing::none,
                    .reach = {}},
                   {.name = space::constants, .max_simd_bits = device.vector_bits}};
  return device;
}

}  // namespace lathe
