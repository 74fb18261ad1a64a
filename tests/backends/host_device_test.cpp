#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "ir/buffer.h"
#include "ir/error.h"

namespace lathe {
namespace {

TEST(HostDevice, DescribesThisMachine) {
  const Device device = host_device("native");
  EXPECT_EQ(device.name, "cpu");
  EXPECT_FALSE(device.triple.empty());
  EXPECT_GE(device.vector_bits, 128);
  EXPECT_GE(device.vector_registers, 16);
  EXPECT_GE(device.cores, 1);
  ASSERT_GE(device.caches.size(), 2u);
  EXPECT_GE(device.caches[0].bytes, 8 << 10);
  EXPECT_LT(device.caches[0].bytes, device.caches[1].bytes);
  EXPECT_TRUE(std::is_sorted(device.features.begin(), device.features.end()));
  for (const char* name : {space::global, space::worker, space::registers, space::constants})
    EXPECT_NE(device.find_space(name), nullptr) << name;
  EXPECT_EQ(device.fingerprint(), host_device("native").fingerprint());
}

TEST(HostDevice, BaselineHasNoOptionalFeature) {
  const Device device = host_device("baseline");
  EXPECT_EQ(device.vector_bits, 128);
  EXPECT_EQ(device.mask_registers, 0);
  EXPECT_NE(device.fingerprint(), host_device("native").fingerprint());
}

#if defined(__x86_64__)
TEST(HostDevice, LevelsKeepWhatBothHave) {
  const Device device = host_device("avx2"), native = host_device("native");
  EXPECT_EQ(device.vector_bits, native.has_feature("avx2") ? 256 : 128);
  EXPECT_FALSE(device.has_feature("avx512f"));
  for (const std::string& feature : device.features) EXPECT_TRUE(native.has_feature(feature)) << feature;
}

TEST(HostDevice, AMaskedFeatureTakesAlongWhatImpliesIt) {
  const Device device = host_device("-avx512f,-f16c");
  for (const std::string& feature : device.features) {
    EXPECT_FALSE(feature.starts_with("avx512")) << feature;
    EXPECT_NE(feature, "f16c");
  }
  EXPECT_EQ(device.mask_registers, 0);
}
#endif

void expect_mistake(const std::string& mask, const std::string& start) {
  try {
    host_device(mask);
    FAIL() << mask << " was taken";
  } catch (const InputError& error) {
    EXPECT_EQ(error.message().substr(0, start.size()), start);
  }
}

TEST(HostDevice, NamesAMistakeInTheMask) {
  expect_mistake("avx", "LATHE_CPU_FEATURES: unknown level 'avx'");
  expect_mistake("-avx512g", "LATHE_CPU_FEATURES: unknown feature 'avx512g'");
  expect_mistake("-avx2,+sse2", "LATHE_CPU_FEATURES: expected -FEATURE between commas, got '+sse2'");
}

}  // namespace
}  // namespace lathe
