#include "tests/memory_harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace lathe::testing {
namespace {

volatile char sink;

void put(std::byte* address) {
  *reinterpret_cast<volatile char*>(address) = 1;
}
void get(std::byte* address) {
  sink = *reinterpret_cast<volatile char*>(address);
}

TEST(MemoryHarness, TouchingEveryElementIsNoFault) {
  for (const Against against : {Against::low, Against::high}) {
    GuardedArray array({f32, {5, 7}, {}, against});
    EXPECT_EQ(fault_of([&] {
                for (std::int64_t k = 0; k < array.count(); ++k) put(array.element(k));
              }),
              nullptr);
    EXPECT_EQ(array.check(), "");
  }
}

TEST(MemoryHarness, OneByteOutsideFaults) {
  GuardedArray high({f32, {5, 7}, {}, Against::high});
  EXPECT_EQ(fault_of([&] { put(high.end()); }), high.end());
  EXPECT_EQ(fault_of([&] { get(high.end()); }), high.end());
  GuardedArray low({f32, {5, 7}, {}, Against::low});
  EXPECT_EQ(fault_of([&] { get(low.begin() - 1); }), low.begin() - 1);
}

TEST(MemoryHarness, MisalignmentIsExactAndTheSlackIsWatched) {
  for (const int misalignment : {0, 4, 60}) {
    for (const Against against : {Against::low, Against::high}) {
      GuardedArray array({f32, {3}, {}, against, misalignment});
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.begin()) % 64, static_cast<std::uintptr_t>(misalignment));
    }
    GuardedArray array({f32, {3}, {}, Against::high, misalignment});
    put(array.begin() - 1);
    EXPECT_EQ(array.check(), "a byte 1 before the array was overwritten");
  }
  GuardedArray slack({f32, {3}, {}, Against::low, 8});
  put(slack.end());
  EXPECT_EQ(slack.check(), "a byte 1 past the array was overwritten");
}

TEST(MemoryHarness, WritesIntoStrideGapsAreSeen) {
  GuardedArray array({i16, {3, 2}, {4, 1}, Against::high});
  EXPECT_EQ(array.end() - array.begin(), 20);
  put(array.element(1));
  EXPECT_EQ(array.check(), "");
  put(array.begin() + 5);
  EXPECT_EQ(array.check(), "byte 5, in a stride gap, was overwritten");
}

TEST(MemoryHarness, CopyFromGapToGapIsSeen) {
  GuardedArray from({i16, {3, 2}, {4, 1}, Against::high}), to({i16, {3, 2}, {4, 1}, Against::high});
  std::memcpy(to.begin(), from.begin(), static_cast<size_t>(from.end() - from.begin()));
  EXPECT_TRUE(to.check().ends_with("in a stride gap, was overwritten")) << to.check();
  EXPECT_TRUE(std::isnan(*reinterpret_cast<const float*>(from.begin() + 4)));
}

TEST(MemoryHarness, NegativeAndZeroStrides) {
  GuardedArray reversed({f32, {4}, {-1}, Against::high});
  EXPECT_EQ(static_cast<std::byte*>(reversed.data()), reversed.end() - 4);
  EXPECT_EQ(reversed.element(3), reversed.begin());
  GuardedArray repeated({f32, {4, 2}, {0, 1}, Against::high});
  EXPECT_EQ(repeated.end() - repeated.begin(), 8);
}

TEST(MemoryHarness, EmptyArrayHasNoByteToTouch) {
  GuardedArray empty({f32, {0, 3}, {}, Against::high});
  EXPECT_EQ(empty.begin(), empty.end());
  EXPECT_NE(fault_of([&] { get(empty.begin()); }), nullptr);
}

}  // namespace
}  // namespace lathe::testing
