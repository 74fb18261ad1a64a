#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lathe {

/// How a kernel names a place in a memory space.
enum class Addressing : std::uint8_t {
  host_pointer,  ///< an ordinary pointer
  head_address,  ///< a fixed base plus an offset
  opaque_index,  ///< a number in the space's own units; no address exists
  none           ///< registers: values, never places
};

struct MemorySpace {
  std::string name;
  int unit_bits = 8;           ///< smallest addressable unit
  int max_simd_bits = 512;     ///< alignment that the widest access wants
  std::int64_t capacity_bits;  ///< 0 means as much as the host has
  Addressing addressing = Addressing::host_pointer;
  bool host_reachable = true;
};

struct CacheLevel {
  std::int64_t bytes;
  int ways;
  int line_bytes;
  bool shared;  ///< among cores
};

/// A machine, as data: whatever a scheduler or a backend wants to know stands here, not in its code.
struct Device {
  std::string name;                   ///< "cpu", or what a description file says
  std::string triple;                 ///< LLVM's target triple
  std::string cpu;                    ///< LLVM's CPU name
  std::vector<std::string> features;  ///< LLVM's feature names that are on, sorted
  int vector_bits = 128;              ///< width of one vector register that arithmetic runs at full rate on
  int vector_registers = 16;
  int mask_registers = 0;  ///< 0: masks live in vector registers
  bool fused_multiply_add = false;
  int fma_per_cycle = 1;  ///< vector fma instructions that start each cycle
  int fma_latency = 4;    ///< cycles
  int loads_per_cycle = 2;
  int cores = 1;
  std::vector<CacheLevel> caches;  ///< nearest first
  std::vector<MemorySpace> spaces;

  /// Lanes of `bits`-wide elements in a vector register.
  int lanes(int bits) const { return vector_bits / bits; }
  bool has_feature(const std::string& feature) const;
  const MemorySpace* find_space(const std::string& name) const;
  /// Everything that code made for this device depends on, as one line: the cache's device fingerprint.
  std::string fingerprint() const;
};

}  // namespace lathe
