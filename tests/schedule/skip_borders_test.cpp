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

TEST(SkipBorders, SumsWeightsOfARowAndOfAllRowsApart) {
  // Each channel has weights of its own: rows of the window leave out their own, results beside the image those of all.
  const std::string inside = "4 <= vi + vr && vi + vr < 11 && 4 <= vj + vs && vj + vs < 11";
  const Func func = parse_func(fmt::format(
      R"(func depthwise(x: f32[7, 7, 48], w: f32[9, 9, 48], out: f32[7, 7, 48]) stage begin {{
  for i in [0, 7) {{ for j in [0, 7) {{ for c in [0, 48) {{ for r in [0, 9) {{ for s in [0, 9) {{
    block sum(space vi in [0, 7) = i, space vj in [0, 7) = j, space vc in [0, 48) = c, reduce vr in [0, 9) = r,
              reduce vs in [0, 9) = s)
        reads out[vi, vj, vc], w[vr, vs, vc], x[vi + vr - 4, vj + vs - 4, vc] writes out[vi, vj, vc] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj, vc] = 0.0f32 }}
      let old: f32 = out[vi, vj, vc]
      let term: f32 = select({0}, x[vi + vr - 4, vj + vs - 4, vc if {0}], 0.0f32) * w[vr, vs, vc]
      out[vi, vj, vc] = old + term }} }} }} }} }} }} }})",
      inside));
  const Device device = cached();
  const std::string decisions = decisions_on(func, device, "sum");
  EXPECT_NE(decisions.find("reads of borders"), std::string::npos) << decisions;
  EXPECT_NE(print(auto_schedule(func, device)).find("w_odd_1"), std::string::npos) << decisions;
}

/// A convolution of 3x3 over an image of so many pixels a side, channels last.
Func by_pixels(int side) {
  const std::string inside = fmt::format("1 <= vi + vr && vi + vr < {0} && 1 <= vj + vs && vj + vs < {0}", side + 1);
  return parse_func(fmt::format(
      R"(func pixels(x: f32[{0}, {0}, 96], w: f32[3, 3, 96, 16], out: f32[{0}, {0}, 16]) stage begin {{
  for i in [0, {0}) {{ for j in [0, {0}) {{ for f in [0, 16) {{ for c in [0, 96) {{ for r in [0, 3) {{ for s in [0, 3) {{
    block sum(space vi in [0, {0}) = i, space vj in [0, {0}) = j, space vf in [0, 16) = f, reduce vc in [0, 96) = c,
              reduce vr in [0, 3) = r, reduce vs in [0, 3) = s)
        reads out[vi, vj, vf], w[vr, vs, vc, vf], x[vi + vr - 1, vj + vs - 1, vc] writes out[vi, vj, vf] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj, vf] = 0.0f32 }}
      let old: f32 = out[vi, vj, vf]
      let term: f32 = select({1}, x[vi + vr - 1, vj + vs - 1, vc if {1}], 0.0f32) * w[vr, vs, vc, vf]
      out[vi, vj, vf] = old + term }} }} }} }} }} }} }} }})",
      side, inside));
}

TEST(SkipBorders, TakesNoMoreStepsTogetherThanRegistersHold) {
  // Of 13 results a row 31 values are wanted at a time: where far more than there are registers, steps stay in a loop.
  for (const int registers : {32, 24}) {
    Device device = cached();
    device.vector_registers = registers;
    const std::string text = print(auto_schedule(by_pixels(13), device));
    EXPECT_NE(text.find("unrolled for j in [0, 13)"), std::string::npos) << text;
    EXPECT_NE(text.find("_odd"), std::string::npos) << "borders are left out\n" << text;
    EXPECT_EQ(text.find("unrolled for s in [0, 3)") != std::string::npos, registers == 32) << text;
  }
}

TEST(SkipBorders, AsksForNothingWhereBordersAreAFewParts) {
  EXPECT_FALSE(leaves_out(padded_convolution(16, 32, 56), cached()));
}

}  // namespace
}  // namespace lathe::testing
