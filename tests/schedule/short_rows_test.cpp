#include <fmt/format.h>

#include "ir/text/parse.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// mean[i] = the sum of a row of x, then `reader`, which reads both.
Func beside_means(int rows, int columns, const std::string& results, const std::string& reader) {
  return parse_func(fmt::format(R"(func f(x: f32[{0}, {1}], {2}) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    alloc mean: f32[{0}]
    for i in [0, {0}) {{ for k in [0, {1}) {{
      block mean(space vi in [0, {0}) = i, reduce vk in [0, {1}) = k) reads x[vi, vk], mean[vi] writes mean[vi] {{
        reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ mean[vi] = 0.0f32 }}
        let l0: f32 = mean[vi]
        let r0: f32 = x[vi, vk]
        mean[vi] = l0 + r0
      }} }} }}
    {3} }} }})",
                                rows, columns, results, reader));
}

/// The sum of what lies above the mean, over the iters named "reduce".
std::string sum_of_differences(int rows, int columns, bool over_columns) {
  const std::string place = over_columns ? "" : "vj";
  return fmt::format(
      R"(for j in [0, {1}) {{ for row in [0, {0}) {{ for c in [0, {2}) {{
      block total(space vj in [0, {1}) = j, reduce vr in [0, {0}) = row, reduce vc in [0, {2}) = c)
          reads x[vr, {3}], mean[vr], out[{4}] writes out[{4}] {{
        reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ out[{4}] = 0.0f32 }}
        let l0: f32 = out[{4}]
        let r0: f32 = x[vr, {3}] - mean[vr]
        out[{4}] = l0 + r0
      }} }} }} }})",
      rows, over_columns ? 1 : columns, over_columns ? columns : 1, over_columns ? "vc" : "vj",
      over_columns ? "0" : "vj");
}

TEST(ShortRows, LeavesATotalOverThemAllItsLanes) {
  for (const int columns : {5, 15, 40}) {
    const Func func = beside_means(64, columns, "out: f32[1]", sum_of_differences(64, columns, true));
    expect_scheduled_well(func);
    EXPECT_TRUE(
        says(decisions_on(func, wide(), "mean"), "keep mean out of row: what is folded there would lose its lanes"))
        << decisions_on(func, wide(), "mean");
    EXPECT_TRUE(says(decisions_on(func, wide(), "total"), "reduce total in")) << decisions_on(func, wide(), "total");
  }
}

TEST(ShortRows, AreSummedUpOutsideOfARegisterTile) {
  const Func func = beside_means(20000, 5, "out: f32[5]", sum_of_differences(20000, 5, false));
  EXPECT_NE(decisions_on(func, wide(), "mean").find("copies of what it sums up would be no registers"),
            std::string::npos)
      << decisions_on(func, wide(), "mean");
  expect_scheduled_well(beside_means(2048, 5, "out: f32[5]", sum_of_differences(2048, 5, false)));
}

TEST(ShortRows, ReadACopyOfWhatLiesAcrossThem) {
  const auto difference = [](int row, int first) {
    return parse_func(
        fmt::format(R"(func f(x: f32[40, 9, 2, {0}], y: f32[9, 2, 3, 40], out: f32[40, 9, 2, 3]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, 40) {{ for j in [0, 9) {{ for k in [0, 2) {{ for l in [0, 3) {{
      block out(space vi in [0, 40) = i, space vj in [0, 9) = j, space vk in [0, 2) = k, space vl in [0, 3) = l)
          reads x[vi, vj, vk, vl + {1}], y[vj, vk, vl, vi] writes out[vi, vj, vk, vl] {{
        out[vi, vj, vk, vl] = x[vi, vj, vk, vl + {1}] - y[vj, vk, vl, vi]
      }} }} }} }} }} }} }})",
                    row, first));
  };
  const Func parts = difference(8, 2), rows = difference(3, 0);
  expect_scheduled_well(parts);
  expect_scheduled_well(rows);
  EXPECT_TRUE(says(decisions_on(parts, wide(), "y"), "copy y once in the short rows of out"));
  EXPECT_TRUE(says(decisions_on(parts, wide(), "y_reindex"), "turn squares of y_reindex"))
      << decisions_on(parts, wide(), "y_reindex");
  EXPECT_TRUE(says(decisions_on(rows, wide(), "out"), "join the loops of out that squares walk"))
      << decisions_on(rows, wide(), "out");
}

TEST(ShortRows, OfStepsAreFoldedInVectors) {
  const Func func = parse_func(R"(func f(x: f32[50, 10], out: f32[50]) stage begin {
  block root() reads x[..] writes out[..] {
    for i in [0, 50) { for k in [0, 5) {
      block most(space vi in [0, 50) = i, reduce vk in [0, 5) = k) reads x[vi, vk * 2], out[vi] writes out[vi] {
        reducer (l: f32) (r: f32) {max(l, r)} identity {-inf(f32)}
        init { out[vi] = -inf(f32) }
        let l0: f32 = out[vi]
        let r0: f32 = x[vi, vk * 2]
        out[vi] = max(l0, r0)
      } } } } })");
  EXPECT_TRUE(says(decisions_on(func, wide(), "most"), "reduce most in 1 vectors of 8 lanes"))
      << decisions_on(func, wide(), "most");
}

TEST(ShortRows, OfPooledPixelsAreWalkedInVectorsWhateverStandsStillBesideThem) {
  for (const char* beside : {"", " + b[vc]", " * b[vc] + a[vc]"}) {
    const Func func = parse_func(
        fmt::format(R"(func f(x: f32[32, 30, 30], a: f32[32], b: f32[32], out: f32[32, 15, 15]) stage begin {{
  block root() reads x[..], a[..], b[..] writes out[..] {{
    for c in [0, 32) {{ for i in [0, 15) {{ for j in [0, 15) {{ for p in [0, 2) {{ for q in [0, 2) {{
      block most(space vc in [0, 32) = c, space vi in [0, 15) = i, space vj in [0, 15) = j, reduce vr in [0, 2) = p,
                 reduce vs in [0, 2) = q)
          reads x[vc, vi * 2 + vr, vj * 2 + vs], a[vc], b[vc], out[vc, vi, vj] writes out[vc, vi, vj] {{
        reducer (l: f32) (r: f32) {{max(l, r)}} identity {{-inf(f32)}}
        init {{ out[vc, vi, vj] = -inf(f32) }}
        let l0: f32 = out[vc, vi, vj]
        let r0: f32 = x[vc, vi * 2 + vr, vj * 2 + vs]{}
        out[vc, vi, vj] = max(l0, r0)
      }} }} }} }} }} }} }} }})",
                    beside));
    EXPECT_TRUE(says(decisions_on(func, wide(), "most"), "tile most: 5 rows x 1 vectors of 16 lanes"))
        << decisions_on(func, wide(), "most");
    expect_scheduled_well(func);
  }
}

/// The sums of x[`left`] * y[`right`] over vk for each vi and vj, of which the result has as many as told.
Func products(const std::string& shapes, const std::string& left, const std::string& right, int rows, int columns,
              int steps) {
  return parse_func(fmt::format(R"(func f({0}, out: f32[{3}, {4}]) stage begin {{
  block root() reads x[..], y[..], out[..] writes out[..] {{
    for i in [0, {3}) {{ for j in [0, {4}) {{ for k in [0, {5}) {{
      block total(space vi in [0, {3}) = i, space vj in [0, {4}) = j, reduce vk in [0, {5}) = k)
          reads x[{1}], y[{2}], out[vi, vj] writes out[vi, vj] {{
        reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ out[vi, vj] = 0.0f32 }}
        let l0: f32 = out[vi, vj]
        let r0: f32 = x[{1}] * y[{2}]
        out[vi, vj] = l0 + r0
      }} }} }} }} }} }})",
                                shapes, left, right, rows, columns, steps));
}

TEST(Flipped, ColumnsAreSummedInVectorsAlongThem) {
  const Func func = products("x: f32[300, 96], y: f32[300, 96]", "vk, vj", "vk, 95 - vj", 1, 96, 300);
  expect_scheduled_well(func);
  const std::string decisions = decisions_on(func, wide(), "total");
  EXPECT_FALSE(says(decisions, "reduce total in")) << decisions << "vectors along the sum would gather";
}

TEST(Flipped, ColumnsOfAProductAreATile) {
  const Func func = products("x: f32[200, 32], y: f32[200, 64]", "vk, vi", "vk, 63 - vj", 32, 64, 200);
  expect_scheduled_well(func);
  EXPECT_TRUE(says(decisions_on(func, wide(), "total"), "tile total")) << decisions_on(func, wide(), "total");
}

TEST(Flipped, EverySecondColumnOfAProductIsCopied) {
  const Func func = products("x: f32[200, 32], y: f32[200, 128]", "vk, vi", "vk, 127 - vj * 2", 32, 64, 200);
  expect_scheduled_well(func);
  EXPECT_TRUE(says(decisions_on(func, wide(), "total"), "copy the windows of y for total"))
      << decisions_on(func, wide(), "total");
}

}  // namespace
}  // namespace lathe::testing
