// What tiles leave out of windows that reach beyond what they are over.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A convolution of windows of `taps` by `taps`, `apart` from each other, as wide as the image of `side` by `side`.
Func convolution(int channels, int filters, int side, int taps = 3, int apart = 1) {
  const int pad = taps / 2 * apart;
  const std::string inside =
      fmt::format("{0} <= vi + vr * {1} && vi + vr * {1} < {2} && {0} <= vj + vs * {1} && vj + vs * {1} < {2}", pad,
                  apart, side + pad);
  return parse_func(fmt::format(
      R"(func convolution(x: f32[{0}, {2}, {2}], w: f32[{1}, {0}, {3}, {3}], out: f32[{1}, {2}, {2}]) stage begin {{
  for f in [0, {1}) {{ for i in [0, {2}) {{ for j in [0, {2}) {{ for c in [0, {0}) {{ for r in [0, {3}) {{ for s in [0, {3}) {{
    block sum(space vf in [0, {1}) = f, space vi in [0, {2}) = i, space vj in [0, {2}) = j, reduce vc in [0, {0}) = c,
              reduce vr in [0, {3}) = r, reduce vs in [0, {3}) = s)
        reads out[vf, vi, vj], w[vf, vc, vr, vs], x[vc, vi + vr * {5} - {4}, vj + vs * {5} - {4}]
        writes out[vf, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vf, vi, vj] = 0.0f32 }}
      let old: f32 = out[vf, vi, vj]
      let term: f32 = select({6}, x[vc, vi + vr * {5} - {4}, vj + vs * {5} - {4} if {6}], 0.0f32) * w[vf, vc, vr, vs]
      out[vf, vi, vj] = old + term }} }} }} }} }} }} }} }})",
      channels, filters, side, taps, pad, apart, inside));
}

Device cached() {
  return with_caches(std::int64_t{1} << 20);
}

bool leaves_out(const Func& func, const Device& device) {
  return decides(func, device, "leave out what sum reads of borders");
}

TEST(SkipBorders, LeavesOutRowsAndColumnsOfSmallImages) {
  const Device device = cached();
  for (const int side : {5, 7}) {
    const Func func = convolution(32, 32, side);
    EXPECT_TRUE(leaves_out(func, device)) << side;
    expect_scheduled_well(func);
  }
  expect_golden(print(auto_schedule(convolution(32, 32, 7), device)), "auto_borders.tir");
}

TEST(SkipBorders, LeavesOutTilesBesideTheImageWhereWindowsAreWide) {
  const Func func = convolution(16, 16, 20, 3, 8);
  EXPECT_TRUE(leaves_out(func, cached()));
  expect_scheduled_well(func);
}

TEST(SkipBorders, LeavesOutRowsThatAreFilledApartFromColumns) {
  Device device = cached();
  device.caches[0].bytes = 256;  // a row is filled at a time
  const std::string text = print(auto_schedule(convolution(32, 32, 7), device));
  const std::string mark = "|| w_global_odd";
  EXPECT_NE(text.find(mark), std::string::npos) << text;
  EXPECT_NE(text.find(mark), text.rfind(mark)) << text;
  expect_scheduled_well(convolution(32, 32, 5));
}

TEST(SkipBorders, LeavesOutStepsOfSeveralChains) {
  const Func func = convolution(16, 8, 5, 3, 3);
  const std::string decisions = decisions_on(func, cached(), "sum");
  EXPECT_NE(decisions.find(" chains"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("reads of borders"), std::string::npos) << decisions;
  expect_scheduled_well(func);
}

TEST(SkipBorders, AsksForNothingWhereBordersAreAFewParts) {
  EXPECT_FALSE(leaves_out(convolution(16, 32, 56), cached()));
}

}  // namespace
}  // namespace lathe::testing
