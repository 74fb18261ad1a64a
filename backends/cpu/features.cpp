#include "backends/cpu/features.h"

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "backends/llvm/target.h"
#include "ir/error.h"

namespace lathe {
namespace {

/// The micro-architecture levels of the x86-64 psABI, as LLVM names their features; each includes those before it.
const std::set<std::string> x86_baseline = {"64bit", "cx8", "fxsr", "mmx", "sse", "sse2", "x87"};
const std::set<std::string> x86_v3 = {"avx",   "avx2",   "bmi",  "bmi2", "cx16",   "f16c",   "fma",   "lzcnt",
                                      "movbe", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"};
const std::set<std::string> x86_v4 = {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "evex512"};

/// Every feature name of each level; a null set keeps everything.
std::map<std::string, std::set<std::string>> levels(const llvm::Triple& triple) {
  if (triple.isX86()) {
    std::set<std::string> avx2 = x86_baseline;
    avx2.insert(x86_v3.begin(), x86_v3.end());
    std::set<std::string> avx512 = avx2;
    avx512.insert(x86_v4.begin(), x86_v4.end());
    return {{"baseline", x86_baseline}, {"avx2", avx2}, {"avx512", avx512}};
  }
  if (triple.isAArch64()) return {{"baseline", {"fp-armv8", "neon"}}};
  if (triple.isRISCV()) return {{"baseline", {"64bit", "a", "c", "d", "f", "i", "m", "zicsr", "zifencei"}}};
  return {{"baseline", {}}};
}

/// Does switching `feature` on switch `other` on? Then masking `other` must take `feature` along.
bool implies(const llvm::Target& target, const Device& device, const std::string& feature, const std::string& other) {
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      target.createMCSubtargetInfo(device.triple, codegen::base_cpu(device), "+" + feature));
  return info && info->checkFeatures("+" + other);
}

/// Instructions that an x86 core takes up in a cycle (Intel's optimization manual, chapter 2; Agner Fog, "The
/// microarchitecture of Intel, AMD and VIA CPUs"): six since Alder Lake and since the first Zen, eight since
/// Zen 5.
int issue_width(const std::string& cpu) {
  const std::set<std::string> four = {"sandybridge", "ivybridge",  "haswell", "broadwell", "skylake", "skylake-avx512",
                                      "cascadelake", "cooperlake", "bdver1",  "bdver2",    "bdver3",  "bdver4"};
  const std::set<std::string> five = {"icelake-client", "icelake-server", "rocketlake", "tigerlake"};
  return four.count(cpu) ? 4 : five.count(cpu) ? 5 : cpu == "znver5" ? 8 : 6;
}

}  // namespace

std::vector<std::string> masked_host_features(const std::string& triple, const std::string& mask) {
  codegen::initialize_llvm();
  const auto host = llvm::sys::getHostCPUFeatures();
  std::set<std::string> features;
  std::vector<std::string> known;
  for (const auto& feature : host) {
    known.push_back(feature.getKey().str());
    if (feature.getValue()) features.insert(feature.getKey().str());
  }
  if (mask.empty() || mask == "native") return {features.begin(), features.end()};
  if (mask[0] != '-') {
    const auto known_levels = levels(llvm::Triple(triple));
    auto level = known_levels.find(mask);
    if (level == known_levels.end()) {
      std::vector<std::string> names = {"native"};
      for (auto& [name, kept] : known_levels) names.push_back(name);
      throw InputError(Mistake::value, "LATHE_CPU_FEATURES: " + unknown_name("level", mask, names));
    }
    std::erase_if(features, [&](const std::string& feature) { return !level->second.count(feature); });
    return {features.begin(), features.end()};
  }
  Device device;
  device.triple = triple;
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  LATHE_CHECK(target, error);
  std::stringstream list(mask);
  for (std::string item; std::getline(list, item, ',');) {
    if (item.size() < 2 || item[0] != '-')
      throw InputError(Mistake::value, "LATHE_CPU_FEATURES: expected -FEATURE between commas, got '" + item + "'");
    const std::string masked = item.substr(1);
    std::sort(known.begin(), known.end());
    if (!std::binary_search(known.begin(), known.end(), masked))
      throw InputError(Mistake::value, "LATHE_CPU_FEATURES: " + unknown_name("feature", masked, known));
    std::erase_if(features, [&](const std::string& feature) {
      return feature == masked || implies(*target, device, feature, masked);
    });
  }
  return {features.begin(), features.end()};
}

void describe_vector_unit(Device& device) {
  const llvm::Triple triple(device.triple);
  auto has = [&](const char* feature) { return device.has_feature(feature); };
  if (triple.isX86()) {
    const bool wide = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
    device.vector_bits = wide ? 512 : has("avx2") ? 256 : 128;
    device.vector_registers = wide ? 32 : 16;
    device.mask_registers = wide ? 8 : 0;
    device.fused_multiply_add = has("fma") || wide;
    // AMD's and Intel's optimization manuals: two fma pipes everywhere; Zen 4's are 256 bits wide and join for 512, and
    // Intel's client parts have one of 512.
    const std::set<std::string> single = {"znver4", "icelake-client", "rocketlake", "tigerlake"};
    device.fma_per_cycle = wide && single.count(device.cpu) ? 1 : 2;
    device.loads_per_cycle = wide && device.cpu == "znver4" ? 1 : 2;
    device.fma_latency = 4;
    device.issue_width = issue_width(device.cpu);
    // Measured on Cascade Lake: streams stop at the end of a page and are taken up again late (element-wise operators
    // over 4 MB a tensor take 0.85 of the time when half a page ahead is asked for, distances from 256 bytes to 2 pages
    // tried), and one core, and two, write memory past the caches at no more than the rate at which it is read and
    // written back. What more cores do is an estimate from six channels of memory.
    const std::set<std::string> meshes = {"skylake-avx512", "cascadelake", "cooperlake"};
    if (meshes.count(device.cpu)) {
      device.stream_ahead_bytes = 2048;
      device.streaming_cores = 8;
    }
    // Measured on Zen 5: eight rows read by turns in pieces of 256 bytes bring 28 GB/s from memory, in pieces of 1 KB
    // 37; and sums of 16 MB from the third cache take 0.92 of the time in two chains in each of two places.
    if (device.cpu == "znver5") {
      device.stream_piece_bytes = 1024;
      device.read_streams = 2;
    }
    // Measured on Zen 3, one row by 4096 x 4096: pieces of 128 bytes of four rows by turns take 0.54 of the time of
    // eight that ask for the next rows, of 512 bytes 0.68; by 1024 x 1024 0.6 and 0.68, by 1000 x 4000 1.1 and 0.98.
    if (device.cpu == "znver3") {
      device.stream_piece_bytes = 128;
      device.streams_at_once = 4;
    }
  } else if (triple.isAArch64()) {
    device.vector_bits = 128;
    device.vector_registers = 32;
    device.fused_multiply_add = true;
    device.fma_per_cycle = 2;
  } else if (triple.isRISCV()) {
    device.vector_bits = 128;
    for (int bits : {256, 512, 1024})
      if (has(("zvl" + std::to_string(bits) + "b").c_str())) device.vector_bits = bits;
    device.vector_registers = 32;
    device.fused_multiply_add = has("f") && has("d");
  } else if (triple.isPPC64() || triple.isSystemZ()) {
    device.vector_registers = 32;
    device.fused_multiply_add = true;
  }
}

}  // namespace lathe
