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
  device.cores = usable_cores();
  device.caches = host_caches();
  const std::int64_t register_bits = std::int64_t{device.vector_registers} * device.vector_bits;
  device.spaces = {{space::global, 8, device.vector_bits, 0, Addressing::host_pointer, true},
                   {space::worker, 8, device.vector_bits, 0, Addressing::host_pointer, true},
                   {space::registers, 8, device.vector_bits, register_bits, Addressing::none, false},
                   {space::constants, 8, device.vector_bits, 0, Addressing::host_pointer, true}};
  return device;
}

}  // namespace lathe
