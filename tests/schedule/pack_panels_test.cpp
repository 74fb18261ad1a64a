// Which panels of a product's columns are copied to compact memory before tiles read them.
#include <gtest/gtest.h>

#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"

namespace lathe {
namespace {

/// Two multiply-adds a cycle of vectors that are lines of the first cache.
Device lines() {
  Device device = testing::wide();
  device.fma_per_cycle = 2;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  return device;
}

/// One such vector in the same time.
Device slower() {
  Device device = lines();
  device.fma_per_cycle = 1;
  return device;
}

bool packs(const Func& func, const Device& device) {
  ScheduleLog log;
  auto_schedule(func, device, &log);
  for (const std::string& decision : log.decisions) {
    if (decision == "pack panels of b") return true;
  }
  return false;
}

TEST(PackPanels, OfVectorsThatCrossLinesWhereEachMultiplicationWantsALine) {
  EXPECT_TRUE(packs(testing::matmul(127, 129, 131, false), lines()));
  EXPECT_FALSE(packs(testing::matmul(127, 128, 131, false), lines())) << "no vector crosses a line";
  EXPECT_FALSE(packs(testing::matmul(18, 129, 131, false), lines())) << "few tiles read a panel";
  EXPECT_FALSE(packs(testing::matmul(127, 129, 40, false), lines())) << "all of it stays in the first cache";
  EXPECT_FALSE(packs(testing::matmul(127, 33, 500, false), lines())) << "one panel lies in one piece already";
  EXPECT_FALSE(packs(testing::matmul(127, 129, 131, false), slower()));
}

TEST(PackPanels, ThatLieScatteredForFewTilesToo) {
  EXPECT_TRUE(packs(testing::matmul(32, 1024, 1024, false), lines()));
  EXPECT_FALSE(packs(testing::matmul(6, 1024, 1024, false), lines())) << "a single tile reads a panel";
  EXPECT_FALSE(packs(testing::matmul(32, 1024, 1024, false), slower()));
  EXPECT_TRUE(packs(testing::matmul(256, 1024, 1024, false), slower()));
}

TEST(PackPanels, KeepsResults) {
  const std::string decisions = testing::decisions_on(testing::matmul(50, 129, 100, false), lines(), "panels");
  EXPECT_NE(decisions.find("pack panels of b\n"), std::string::npos) << decisions;
}

}  // namespace
}  // namespace lathe
