// Copies for tiled reductions that are made part by part, each of which is read while it is near.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// out[c, i, j] = sum of w[c, r, s] * x[c, i * step + r - 1, j * step + s - 1], zero outside of x: a depthwise
/// convolution of `taps` squared over channels of `size` squared.
Func depthwise(int channels, int size, int step = 1, int taps = 3) {
  const int results = (size + 2 - taps) / step + 1;
  const std::string inside = fmt::format(
      "0 < vi * {0} + vr && vi * {0} + vr < {1} && 0 < vj * {0} + vs && vj * {0} + vs < {1}", step, size + 1);
  return parse_func(fmt::format(
      R"(func depthwise(x: f32[{0}, {1}, {1}], w: f32[{0}, {5}, {5}], out: f32[{0}, {2}, {2}]) stage begin {{
  for c in [0, {0}) {{ for i in [0, {2}) {{ for j in [0, {2}) {{ for r in [0, {5}) {{ for s in [0, {5}) {{
    block sum(space vc in [0, {0}) = c, space vi in [0, {2}) = i, space vj in [0, {2}) = j, reduce vr in [0, {5}) = r,
              reduce vs in [0, {5}) = s)
        reads out[vc, vi, vj], w[vc, vr, vs], x[vc, vi * {3} + vr - 1, vj * {3} + vs - 1] writes out[vc, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vc, vi, vj] = 0.0f32 }}
      let old: f32 = out[vc, vi, vj]
      let term: f32 = select({6}, x[vc, vi * {3} + vr - 1, vj * {3} + vs - 1 if {6}], 0.0f32) * w[vc, vr, vs]
      out[vc, vi, vj] = old + term }} }} }} }} }} }} }})",
      channels, size, results, step, size + 1, taps, inside));
}

Device with_caches(std::int64_t first, int cores = 2) {
  Device device = wide();
  device.cores = cores;
  device.caches = {{first, 8, 64, false}, {64 * first, 16, 64, false}, {4096 * first, 16, 64, true}};
  return device;
}

/// Is the padded copy made channel by channel?
bool copies_by_channels(const Func& func, const Device& device) {
  return decisions_on(func, device, "sum").find("copy for each 0 what sum reads of x_padded") != std::string::npos;
}

/// Bytes of a channel of so many rows and columns, padded.
constexpr std::int64_t padded(std::int64_t size) {
  return (size + 2) * (size + 2) * 4;
}
constexpr std::int64_t channel = padded(20);

TEST(NearCopies, PadsAChannelWhereItIsRead) {
  const Func func = depthwise(6, 20, 1, 5);
  EXPECT_TRUE(copies_by_channels(func, with_caches(2 * channel)));
  expect_scheduled_well(func);
  expect_golden(print(auto_schedule(func, with_caches(2 * channel))), "auto_near_copies.tir");
}

TEST(NearCopies, OnlyOfPartsThatStayNear) {
  EXPECT_FALSE(copies_by_channels(depthwise(6, 20, 1, 5), with_caches(2 * channel - 1)))
      << "a channel takes more than half";
  EXPECT_FALSE(copies_by_channels(depthwise(6, 20, 1, 5), with_caches(6 * channel))) << "all of it is near";
  EXPECT_FALSE(copies_by_channels(depthwise(6, 20, 1, 5), with_caches(2 * channel, 7)))
      << "cores would go without a channel";
}

TEST(NearCopies, OfPartsThatStayInACoresOwnCachesWhereAllLeavesThem) {
  const auto copies = [](std::int64_t own) {
    Device device = with_caches(channel);
    device.caches[1].bytes = own;
    return copies_by_channels(depthwise(6, 20, 1, 5), device);
  };
  EXPECT_TRUE(copies(2 * channel));
  EXPECT_FALSE(copies(2 * channel - 1)) << "a channel takes more than half";
  EXPECT_FALSE(copies(6 * channel)) << "all of it stays";
}

TEST(NearCopies, CopiesForLongRowsPayWhereTheyAreNear) {
  // Rows of four vectors, of which only those at the ends touch the padding.
  const Func func = depthwise(6, 64);
  const auto pads = [&](std::int64_t first, int fma_per_cycle) {
    Device device = with_caches(first);
    device.fma_per_cycle = fma_per_cycle;
    return decisions_on(func, device, "sum").find("pad x once for sum") != std::string::npos;
  };
  EXPECT_TRUE(pads(2 * padded(64), 2));
  EXPECT_FALSE(pads(padded(64), 2));
  EXPECT_FALSE(pads(2 * padded(64), 1)) << "loads have the time of a multiply-add each";
}

TEST(NearCopies, PadsAChannelWhoseElementsAreSetApart) {
  const Func func = depthwise(6, 20, 2, 5);
  const std::string decisions = decisions_on(func, with_caches(2 * channel), "");
  EXPECT_NE(decisions.find("pad x once for sum, every 2 elements apart\n"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("compute x_pad under 0\n"), std::string::npos) << decisions;
  expect_scheduled_well(func);
}

TEST(NearCopies, LeavesBlocksThatOnlyLookLikeCopies) {
  const auto apart = [](const std::string& loop, const std::string& iter, const std::string& beside) {
    return parse_func(fmt::format(R"(func t(x: f32[64], y: f32[64], out: f32[2, 32]) stage begin {{ {} i in [0, 64) {{
  block b({} vi in [0, 64) = i) reads x[vi] writes out[..] {{ out[vi % 2, vi // 2] = x[vi] }} {} }} }})",
                                  loop, iter, beside));
  };
  const std::string other = "block c(space vi in [0, 64) = i) reads x[vi] writes y[vi] { y[vi] = x[vi] }";
  expect_scheduled_well(apart("for", "space", other));
  expect_scheduled_well(apart("for", "ordered", ""));
  expect_scheduled_well(apart("for", "opaque", ""));
  expect_scheduled_well(apart("parallel for", "space", ""));
  expect_scheduled_well(apart("for", "space", ""));
}

}  // namespace
}  // namespace lathe::testing
