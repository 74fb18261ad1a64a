// What tiles leave out of windows that reach beyond what they are over.
#include <gtest/gtest.h>

#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

Device cached() {
  return with_caches(std::int64_t{1} << 20);
}

bool leaves_out(const Func& func, const Device& device) {
  return decides(func, device, "leave out what sum reads of borders");
}

TEST(SkipBorders, LeavesOutRowsAndColumnsOfSmallImages) {
  const Device device = cached();
  for (const int side : {5, 7}) {
    const Func func = padded_convolution(32, 32, side);
    EXPECT_TRUE(leaves_out(func, device)) << side;
    expect_scheduled_well(func);
  }
  expect_golden(print(auto_schedule(padded_convolution(32, 32, 7), device)), "auto_borders.tir");
}

TEST(SkipBorders, LeavesOutTilesBesideTheImageWhereWindowsAreWide) {
  const Func func = padded_convolution(16, 16, 20, 3, 8);
  EXPECT_TRUE(leaves_out(func, cached()));
  expect_scheduled_well(func);
}

TEST(SkipBorders, LeavesOutRowsThatAreFilledApartFromColumns) {
  Device device = cached();
  device.caches[0].bytes = 256;  // a row is filled at a time
  const std::string text = print(auto_schedule(padded_convolution(32, 32, 7), device));
  const std::string mark = "|| w_global_odd";
  EXPECT_NE(text.find(mark), std::string::npos) << text;
  EXPECT_NE(text.find(mark), text.rfind(mark)) << text;
  expect_scheduled_well(padded_convolution(32, 32, 5));
}

TEST(SkipBorders, LeavesOutStepsOfSeveralChains) {
  const Func func = padded_convolution(16, 8, 5, 3, 3);
  const std::string decisions = decisions_on(func, cached(), "sum");
  EXPECT_NE(decisions.find(" chains"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("reads of borders"), std::string::npos) << decisions;
  expect_scheduled_well(func);
}

TEST(SkipBorders, AsksForNothingWhereBordersAreAFewParts) {
  EXPECT_FALSE(leaves_out(padded_convolution(16, 32, 56), cached()));
}

}  // namespace
}  // namespace lathe::testing
