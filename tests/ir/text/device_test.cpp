#include "ir/text/device.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

/// Every field of the text form at least once, none at its default.
constexpr const char* everything = R"(device `two level` {
  family npu
  triple "x86_64-pc-linux-gnu"
  cpu "znver4"
  features {"avx2", "fma"}
  vector_bits 1024
  vector_registers 48
  mask_registers 8
  fma_per_cycle 2
  fma_latency 5
  loads_per_cycle 3
  issue_width 5
  cores 4
  stream_ahead_bytes 256
  stream_piece_bytes 512
  streams_at_once 4
  read_streams 3
  streaming_cores 2
  fused_multiply_add true
  cache {bytes 32768 ways 8 line_bytes 64}
  cache {bytes 1048576 ways 16 line_bytes 128 shared}
  axis core 4
  axis lane 32
  space global {
    unit_bits 8
    max_simd_bits 1024
    capacity_bits 0
    host_pointer
    reach {host, core}
  }
  space vmem {
    unit_bits 32
    max_simd_bits 1024
    capacity_bits 1048576
    head_address 268435456 + core * 131072
    reach {core}
    per core
  }
  space acc {
    unit_bits 512
    max_simd_bits 512
    capacity_bits 65536
    opaque_index
    reach {core, lane}
  }
  copy global -> vmem "dma.in"
  copy vmem -> global "dma.out"
  intrinsic func outer_product(a: f32[8], b: f32[8], c: f32[8, 8]) stage begin
  {
    for i in [0, 8) {
      for j in [0, 8) {
        c[i, j] = c[i, j] + a[i] * b[j]
      }
    }
  }
  intrinsic func doubled(x: f32[4, 4] strides [s, 1], y: f32[4], s: i64) stage begin
  {
    for i in [0, 4) {
      y[i] = x[i, i] * 2.0f32
    }
  }
}
)";

TEST(DeviceText, PrintsWhatItReads) {
  const Device device = parse_device(everything);
  EXPECT_EQ(print_device(device), everything);
  EXPECT_TRUE(parse_device(print_device(device)) == device);
  ASSERT_NE(device.find_space("vmem"), nullptr);
  EXPECT_EQ(device.find_space("vmem")->addressing, Addressing::head_address);
  EXPECT_EQ(device.find_space("vmem")->per, "core");
  EXPECT_TRUE(device.find_space("acc")->reachable_from("lane"));
  EXPECT_FALSE(device.find_space("acc")->reachable_from(host_agent));
  EXPECT_EQ(device.find_axis("core")->extent, 4);
  EXPECT_EQ(device.copies[1].instruction, "dma.out");
}

TEST(DeviceText, WhatIsLeftOutKeepsItsDefaultAndTheCommonSpacesAreThere) {
  const Device device = parse_device("device d {}");
  EXPECT_EQ(device.family, "cpu");
  EXPECT_EQ(device.vector_bits, 128);
  EXPECT_EQ(device.space_names(), (std::vector<std::string>{"global", "worker", "register", "constant"}));
  EXPECT_TRUE(parse_device(print_device(device)) == device);
  // A space of a common name begins as every device has it.
  EXPECT_EQ(parse_device("device d { space register { capacity_bits 4096 } }").find_space("register")->addressing,
            Addressing::none);
}

TEST(DeviceText, EveryFieldCountsInComparisonAndFingerprint) {
  const std::string text = everything;
  const Device device = parse_device(text);
  const std::pair<const char*, const char*> changes[] = {{"`two level`", "other"},
                                                         {"family npu", "family other"},
                                                         {"x86_64-pc-linux-gnu", "aarch64-linux-gnu"},
                                                         {"znver4", "znver5"},
                                                         {"\"avx2\", ", ""},
                                                         {"vector_bits 1024", "vector_bits 512"},
                                                         {"vector_registers 48", "vector_registers 32"},
                                                         {"mask_registers 8", "mask_registers 7"},
                                                         {"fma_per_cycle 2", "fma_per_cycle 1"},
                                                         {"fma_latency 5", "fma_latency 4"},
                                                         {"loads_per_cycle 3", "loads_per_cycle 2"},
                                                         {"issue_width 5", "issue_width 4"},
                                                         {"cores 4", "cores 2"},
                                                         {"stream_ahead_bytes 256", "stream_ahead_bytes 128"},
                                                         {"stream_piece_bytes 512", "stream_piece_bytes 64"},
                                                         {"streams_at_once 4", "streams_at_once 8"},
                                                         {"read_streams 3", "read_streams 1"},
                                                         {"streaming_cores 2", "streaming_cores 3"},
                                                         {"fused_multiply_add true", "fused_multiply_add false"},
                                                         {"ways 16", "ways 8"},
                                                         {" shared", ""},
                                                         {"axis core 4", "axis core 8"},
                                                         {"unit_bits 32", "unit_bits 16"},
                                                         {"capacity_bits 1048576", "capacity_bits 2097152"},
                                                         {"268435456", "268435457"},
                                                         {"core * 131072", "core * 131073"},
                                                         {"opaque_index", "host_pointer"},
                                                         {"reach {core, lane}", "reach {core}"},
                                                         {"    per core\n", ""},
                                                         {"dma.out", "dma"},
                                                         {"outer_product(", "outer("},
                                                         {"x[i, i] * 2.0f32", "x[i, i] * 3.0f32"}};
  for (const auto& [from, to] : changes) {
    std::string changed = text;
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, std::string(from).size(), to);
    const Device other = parse_device(changed);
    EXPECT_FALSE(other == device) << from;
    EXPECT_NE(other.fingerprint(), device.fingerprint()) << from;
  }
}

std::string mistake(const std::string& text) {
  try {
    parse_device(text, "d.device");
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

TEST(DeviceText, AMistakeNamesItsPlaceAndWhatIsKnown) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "d.device:1:1: expected 'device', found the end"},
      {"device d { vector_bit 128 }",
       "d.device:1:12: expected a field of a device, found 'vector_bit'; did you mean 'vector_bits'? known: family,"},
      {"device d { cores 2 cores 3 }", "d.device:1:20: expected each field once"},
      {"device d { cores 0 }", "device d: cores is 0, expected at least 1"},
      {"device d { streams_at_once 0 }", "device d: streams_at_once is 0, expected at least 1"},
      {"device d { cores -1 }", "d.device:1:19: expected a number of at least 0"},
      {"device d { axis core 0 }", "d.device:1:22: expected how many positions the axis has"},
      {"device d { axis core 2 axis core 2 }", "d.device:1:29:"},
      {"device d { axis host 2 }", "device d: agent host is described twice"},
      {"device d { space s {} space s {} }", "device d: space s is described twice"},
      {"device d { space s { unit_bits 12 } }", "device d: space s: unit_bits is 12, expected whole bytes"},
      {"device d { space s { unit_bits 32 capacity_bits 40 } }",
       "device d: space s: capacity_bits is 40, expected whole units of 32"},
      {"device d { space s { capacity 40 } }",
       "d.device:1:22: expected a field of a space, found 'capacity'; known: capacity_bits, reach, per,"},
      {"device d { space s { reach {core} } }", "device d: unknown agent 'core'; known: host"},
      {"device d { axis core 2 space s { per cores } }",
       "device d: unknown axis 'cores'; did you mean 'core'? known: core"},
      {"device d { space s { head_address } }", "d.device:1:35: expected"},
      {"device d { space s { head_address 4 opaque_index } }", "expected each field once"},
      {"device d { space s { head_address core } }", "d.device:1:35: expected a variable, found 'core'"},
      {"device d { axis core 2 space s { head_address core // 2 } }",
       "device d: space s: a head address is made of integers and axes by +, - and *"},
      {"device d { copy global -> vmem \"dma\" }",
       "device d: unknown space 'vmem'; known: global, worker, register, constant"},
      {"device d { intrinsic func f(x: f32[2]) { x[0] = x[1] } intrinsic func f(x: f32[2]) { x[1] = x[0] } }",
       "device d: intrinsic f is described twice"},
      {"device d { intrinsic func f(x: f32[n], n: i64) { x[0] = x[1] } }",
       "intrinsic f: the shape of x is not constant"},
      {"device d { intrinsic func f(x: f32[2]) { block b() { alloc t: f32[1] t[0] = x[0] } } }",
       "intrinsic f: it uses t, which is no parameter"},
      {"device d { intrinsic func f(x: f32[2] strides [n * 2], n: i64) { x[0] = x[1] } }",
       "intrinsic f: a stride of x is neither constant nor a parameter"},
      {"device d { intrinsic func f() {} }", "intrinsic f: it has no buffer for a parameter"},
      {"device d { intrinsic f }", "d.device:1:22: expected 'func', found 'f'"},
      {"device d { features {\"a\" }", "d.device:1:27: expected a field of a device or '}', found the end of the file"},
      {"device d {} x", "expected the end"}};
  for (const auto& [text, part] : cases) {
    const std::string message = mistake(text);
    EXPECT_NE(message, "taken") << text;
    EXPECT_NE(message.find(part), std::string::npos) << text << "\n" << message;
  }
}

std::string register_mistake(const Device& device) {
  try {
    register_device(device);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

TEST(DeviceRegistry, LooksUpWhatWasRegisteredAndRefusesTheRest) {
  const Device device = parse_device("device registry_test { vector_bits 256 }");
  register_device(device);
  EXPECT_TRUE(find_device("registry_test") == device);
  EXPECT_EQ(register_mistake(device), "a device named 'registry_test' is registered already");
  Device broken = device;
  broken.name = "broken";
  broken.cores = 0;
  EXPECT_EQ(register_mistake(broken), "device broken: cores is 0, expected at least 1");
  const std::vector<std::string> names = device_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "registry_test"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "broken"), 0);
  try {
    find_device("registry_tets");
    FAIL() << "an unknown device was found";
  } catch (const InputError& error) {
    EXPECT_EQ(error.message().find("unknown device 'registry_tets'; did you mean 'registry_test'? known: "), 0u);
  }
}

}  // namespace
}  // namespace lathe
