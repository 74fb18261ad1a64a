#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "ir/device.h"

namespace lathe::text {

/// The fields that are one small number, by the names that text gives them: those of the structs.
struct DeviceNumber {
  std::string_view name;
  int Device::* member;
};
inline const std::vector<DeviceNumber> device_numbers = {{"vector_bits", &Device::vector_bits},
                                                         {"vector_registers", &Device::vector_registers},
                                                         {"mask_registers", &Device::mask_registers},
                                                         {"fma_per_cycle", &Device::fma_per_cycle},
                                                         {"fma_latency", &Device::fma_latency},
                                                         {"loads_per_cycle", &Device::loads_per_cycle},
                                                         {"issue_width", &Device::issue_width},
                                                         {"cores", &Device::cores},
                                                         {"stream_ahead_bytes", &Device::stream_ahead_bytes},
                                                         {"stream_piece_bytes", &Device::stream_piece_bytes},
                                                         {"streams_at_once", &Device::streams_at_once},
                                                         {"read_streams", &Device::read_streams},
                                                         {"streaming_cores", &Device::streaming_cores}};

struct SpaceNumber {
  std::string_view name;
  int MemorySpace::* member;
};
inline const std::vector<SpaceNumber> space_numbers = {{"unit_bits", &MemorySpace::unit_bits},
                                                       {"max_simd_bits", &MemorySpace::max_simd_bits}};

inline constexpr std::array addressings = {Addressing::host_pointer, Addressing::head_address, Addressing::opaque_index,
                                           Addressing::none};

}  // namespace lathe::text
