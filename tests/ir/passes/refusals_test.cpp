// What a pass cannot do, it says: which condition, and which block or buffer.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/passes/device_storage_access.h"
#include "ir/passes/lower_reductions.h"
#include "ir/passes/plan_storage.h"
#include "ir/text/device.h"
#include "ir/text/parse.h"

namespace lathe {
namespace {

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const Refusal& e) {
    return e.what();
  }
  return "no Refusal";
}

std::string allocating(const std::string& facts) {
  return "func f(n: i64, c: f32[n]) stage before_flatten " + facts +
         " { block () { alloc t: f32[n] "
         "for i in [0, n) { t[i] = 1.0f32 } for j in [0, n) { c[j] = t[n - 1 - j] } } }";
}

TEST(PlanStorage, RefusesAnAllocationWithoutAConstantBound) {
  EXPECT_EQ(refusal([] { plan_storage(parse_func(allocating("")), Device{}); }),
            "plan_storage refused: condition 1, the size of each allocation has a constant bound: buffer t; give its "
            "symbolic extents a maximum");
}

TEST(PlanStorage, TakesTheBoundOfASymbolicExtentFromTheFacts) {
  Func planned = plan_storage(parse_func(allocating("facts {n in [1, 100]}")), Device{});
  EXPECT_EQ(std::get<std::int64_t>(planned->attrs.at("shared_bytes")), 448);
}

TEST(LowerReductions, RefusesAGuardThatAnEmptyDomainWouldNeverReach) {
  const char* text =
      "func f(n: i64, a: f32[4, n], c: f32[4]) stage begin { block root() { for i in [0, 4) { for k in [0, n) { if n < "
      "9 { "
      "block total(space vi in [0, 4) = i, reduce vk in [0, n) = k) reads a[vi, vk] writes c[vi] { "
      "reducer (x: f32) (y: f32) {x + y} identity {0.0f32} init { c[vi] = 0.0f32 } "
      "let l: f32 = c[vi] let r: f32 = a[vi, vk] c[vi] = l + r } } } } } }";
  std::string message = refusal([&] { lower_reductions(parse_func(text)); });
  EXPECT_NE(message.find("lower_reductions refused: condition 1"), std::string::npos) << message;
  EXPECT_NE(message.find("block total, iter vk"), std::string::npos) << message;
}

std::string accessing(const std::string& body) {
  return refusal([&] {
    const Device device = parse_device(
        "device d { axis core 4 space vmem { max_simd_bits 256 capacity_bits 8192 head_address 4096 + core * 1000 "
        "reach "
        "{core} per core } space tile { unit_bits 256 opaque_index reach {host, core} } }");
    device_storage_access(parse_func("func f(a: f32[64], c: f32[64]) stage flatten attrs {space_tile_bytes: 256, "
                                     "space_vmem_bytes: 256} memory { v: f32[64] offset 0 @vmem align 32 t: f32[64] "
                                     "offset 0 @tile align 32 } { " +
                                     body + " }"),
                          device);
  });
}

TEST(DeviceStorageAccess, RefusesAHeadAddressWhoseAxisIsNotBound) {
  EXPECT_EQ(
      accessing("for i in [0, 8) { v[i] = a[i] }"),
      "device_storage_access refused: condition 1, each axis in a head address is bound around the accesses: buffer "
      "v in space vmem, whose head address is 4096 + core * 1000, in no loop along core");
}

TEST(DeviceStorageAccess, RefusesAHeadAddressOutOfAlignment) {
  EXPECT_EQ(
      accessing("bound(\"core\") for b in [0, 4) { v[b] = a[b] }"),
      "device_storage_access refused: condition 2, a head address is a multiple of the alignment that its buffers "
      "were planned with: space vmem begins at 4096 + core * 1000, buffer v wants 32 bytes");
}

TEST(DeviceStorageAccess, RefusesPartsOfAnOpaqueUnit) {
  const std::string start =
      "device_storage_access refused: condition 3, an access to an opaque space is of whole units: buffer t at ";
  EXPECT_EQ(accessing("for i in [0, 8) { t[i] = a[i] }"), start + "i; space tile has units of 256 bits, 8 elements");
  EXPECT_EQ(accessing("for i in [0, 8) { t[ramp(i * 4, 1, 8)] = a[ramp(i * 4, 1, 8)] }"),
            start + "ramp(i * 4, 1, 8); space tile has units of 256 bits, 8 elements");
  EXPECT_EQ(accessing("for i in [0, 4) { c[ramp(i * 8, 1, 8)] = t[ramp(i * 8, 1, 8)] + t[ramp(i * 8, 1, 8)] }"),
            "no Refusal");
  EXPECT_EQ(accessing("c[ramp(0, 1, 8)] = t[ramp(0, 2, 8)]"),
            start + "ramp(0, 2, 8); space tile has units of 256 bits, 8 elements");
}

TEST(DeviceStorageAccess, RefusesAnAddressInAnOpaqueSpace) {
  EXPECT_EQ(accessing("c[0] = extern<f32>\"read\"(&t[0])"),
            "device_storage_access refused: condition 4, no address is taken in an opaque space: &t[0] in space tile");
}

}  // namespace
}  // namespace lathe
