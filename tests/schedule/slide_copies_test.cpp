// Copies of windows that slide along a loop around the tiles, made under blocks of that loop.
#include <gtest/gtest.h>

#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// One whose cores have caches of 4 KiB and of so many bytes.
Device small_caches(std::int64_t own) {
  Device device = with_caches(own);
  device.caches[0].bytes = 4 << 10;
  return device;
}

bool makes_blocks(const Func& func, const Device& device) {
  return decides(func, device, "make x_pad for sum under blocks of");
}

TEST(SlideCopies, PadsRowsOfAnImageThatLeavesTheCachesWhereTheyAreRead) {
  const Device device = small_caches(16 << 10);
  const Func func = padded_convolution(4, 8, 48);
  const std::string decisions = decisions_on(func, device, "x_pad");
  EXPECT_TRUE(says(decisions, "make x_pad for sum under blocks of 6 of 1")) << decisions;
  expect_golden(print(auto_schedule(func, device)), "auto_slide_copies.tir");
}

TEST(SlideCopies, LeavesCopiesAloneThatStayInTheCaches) {
  EXPECT_FALSE(makes_blocks(padded_convolution(4, 8, 48), small_caches(32 << 10)));
}

TEST(SlideCopies, LeavesCopiesAloneThatFewUpdatesRead) {
  EXPECT_FALSE(makes_blocks(padded_convolution(4, 1, 48), small_caches(16 << 10)));
}

TEST(SlideCopies, LeavesCopiesAloneThatTilesOfOtherFiltersReadAgain) {
  EXPECT_FALSE(makes_blocks(padded_convolution(4, 64, 48), small_caches(16 << 10)));
}

TEST(SlideCopies, LeavesBlocksAloneThatCoresCannotShare) {
  Device device = small_caches(16 << 10);
  device.cores = 16;
  EXPECT_FALSE(makes_blocks(padded_convolution(4, 8, 48), device));
}

}  // namespace
}  // namespace lathe::testing
