/// Which tiles ask for the lines that they store their sums to.
#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe {
namespace {

/// Two multiply-adds a cycle of vectors that are lines of the first cache, and so many bytes of a core's own.
Device lines(std::int64_t own) {
  Device device = testing::wide();
  device.fma_per_cycle = 2;
  device.caches = {{32 << 10, 8, 64, false}, {own, 16, 64, false}};
  return device;
}

/// The line of the loop that asks; nothing where none does.
std::string asking(const Func& func, const Device& device) {
  const std::string text = print(auto_schedule(func, device));
  const size_t at = text.find("prefetch_stores: 1"), from = text.rfind("for ", at);
  return at == std::string::npos ? "" : text.substr(from, text.find(" @", from) - from);
}

std::string asking(std::int64_t steps, const Device& device) {
  return asking(testing::matmul(128, 128, static_cast<int>(steps), false), device);
}

constexpr std::int64_t line_of_sums = 512;  // bytes of 128
constexpr std::int64_t result = 128 * line_of_sums;
constexpr std::int64_t operands = 2 * line_of_sums, bias = line_of_sums;  // the former of one step

TEST(AskForResults, InPartsOfASingleLoopOverSteps) {
  EXPECT_EQ(asking(64, lines(result - 1)), "for ko in [0, 8)");
  EXPECT_EQ(asking(70, lines(result - 1)), "for ko in [0, 7)") << "some seven rows in all";
  EXPECT_EQ(asking(67, lines(result - 1)), "") << "a prime number of steps";
}

TEST(AskForResults, OfFewStepsBeyondTheCachesOfACore) {
  EXPECT_EQ(asking(512, lines(result - 1)), "for ko in [0, 8)");
  EXPECT_EQ(asking(520, lines(result - 1)), "");
  EXPECT_EQ(asking(128, lines(result)), "for ko in [0, 8)") << "operands take room there";
  EXPECT_EQ(asking(144, lines(result)), "") << "a small part of so long sums";
  EXPECT_EQ(asking(64, lines(result + 64 * operands + bias)), "");
  Device slower = lines(result - 1);
  slower.fma_per_cycle = 1;
  EXPECT_EQ(asking(64, slower), "for ko in [0, 4)") << "of results beyond these caches";
  slower.caches[1].bytes = result;
  EXPECT_EQ(asking(64, slower), "");
}

TEST(AskForResults, InEachStepOfShortSumsWhereMultiplyAddsLeaveTime) {
  Device device = lines(result - 1);
  EXPECT_EQ(asking(7, device), "");
  device.fma_per_cycle = 1;
  EXPECT_EQ(asking(7, device), "for k in [0, 7)");
}

/// Products for each of 128 places of a batch, along which vectors lie.
Func products_of_places() {
  return parse_func(R"(func f(x: f32[8, 16, 128], y: f32[8, 9, 128], out: f32[16, 9, 128]) stage begin {
  block root() reads x[..], y[..] writes out[..] {
    for i in [0, 16) { for j in [0, 9) { for b in [0, 128) { for k in [0, 8) {
      block sum(space vi in [0, 16) = i, space vj in [0, 9) = j, space vb in [0, 128) = b, reduce vk in [0, 8) = k)
          reads out[vi, vj, vb], x[vk, vi, vb], y[vk, vj, vb] writes out[vi, vj, vb] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vi, vj, vb] = 0.0f32 }
        let l: f32 = out[vi, vj, vb]
        let r: f32 = x[vk, vi, vb] * y[vk, vj, vb]
        out[vi, vj, vb] = l + r } } } } } } })");
}

TEST(AskForResults, OfTilesWhoseVectorsWalkBothOperands) {
  constexpr std::int64_t results = 16 * (9 * line_of_sums);
  Device device = lines(results - 1);
  device.fma_per_cycle = 1;
  EXPECT_NE(asking(products_of_places(), device), "") << testing::decisions_on(products_of_places(), device, "sum");
  device.caches[1].bytes = results;
  EXPECT_EQ(asking(products_of_places(), device), "");
}

TEST(AskForResults, InTheOutermostOfSeveralLoopsOverSteps) {
  const std::string func = R"(func f(x: f32[3, 38, 64], w: f32[64, 3, 7, 7], out: f32[64, 32, 32]) stage begin {
  block root() reads x[..], w[..] writes out[..] {
    for f in [0, 64) { for i in [0, 32) { for j in [0, 32) { for c in [0, 3) { for p in [0, 7) { for q in [0, 7) {
      block sum(space vf in [0, 64) = f, space vi in [0, 32) = i, space vj in [0, 32) = j, reduce vc in [0, 3) = c,
                reduce vp in [0, 7) = p, reduce vq in [0, 7) = q)
          reads out[vf, vi, vj], x[vc, vi + vp, vj + vq], w[vf, vc, vp, vq] writes out[vf, vi, vj] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vf, vi, vj] = 0.0f32 }
        let l: f32 = out[vf, vi, vj]
        let r: f32 = x[vc, vi + vp, vj + vq] * w[vf, vc, vp, vq]
        out[vf, vi, vj] = l + r } } } } } } } } })";
  EXPECT_EQ(asking(parse_func(func), lines(64 << 10)), "for c in [0, 3)");
}

}  // namespace
}  // namespace lathe
