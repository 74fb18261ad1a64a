// Tiles of dot products: how their lanes are folded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

TEST(TilerDots, FindsTheColumnsBehindAnIterThatIsReduced) {
  expect_scheduled_well(parse_func(
      R"(func sums(x: i32[33, 3, 40], y: i32[8, 33, 6], z: i32[8, 40], s: i32[8, 33]) stage begin {
  for i in [0, 40) { for j in [0, 8) { for k in [0, 3) { for c in [0, 33) {
    block sum(reduce vi in [0, 40) = i, space vj in [0, 8) = j, reduce vk in [0, 3) = k, space vc in [0, 33) = c)
        reads x[vc, vk, vi], y[vj, vc, vk * 2], z[vj, vi], s[vj, vc] writes s[vj, vc] {
      reducer (lhs: i32) (rhs: i32) {lhs + rhs} identity {0i32}
      init { s[vj, vc] = 0i32 }
      let l: i32 = s[vj, vc]
      let r: i32 = x[vc, vk, vi] + y[vj, vc, vk * 2] + z[vj, vi]
      s[vj, vc] = l + r } } } } } })"));
}

TEST(TilerDots, FoldsOneByOneWhereResultsOfATileLieApart) {
  // The batch is what results lie side by side along; four columns would divide the tile's.
  const Func func = parse_func(
      R"(func dots(x: f32[8, 3, 64], y: f32[4, 3, 64], out: f32[8, 4, 3]) stage begin {
  for i in [0, 8) { for j in [0, 4) { for b in [0, 3) { for k in [0, 64) {
    block sum(space vi in [0, 8) = i, space vj in [0, 4) = j, space vb in [0, 3) = b, reduce vk in [0, 64) = k)
        reads out[vi, vj, vb], x[vi, vb, vk], y[vj, vb, vk] writes out[vi, vj, vb] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vj, vb] = 0.0f32 }
      let old: f32 = out[vi, vj, vb]
      let term: f32 = x[vi, vb, vk] * y[vj, vb, vk]
      out[vi, vj, vb] = old + term } } } } } })");
  const std::string decisions = decisions_on(func, wide(), "sum");
  EXPECT_NE(decisions.find("dot products of 16 lanes"), std::string::npos) << decisions;
  expect_scheduled_well(func);
}

TEST(TilerDots, KeepsLanesForTheColumnsThatAreFoldedTogether) {
  const auto lanes = [](int columns, int steps) {
    const Func func = parse_func(fmt::format(
        R"(func products(x: f32[300, {0}, {1}], y: f32[300, {1}], out: f32[300, {0}]) stage begin {{
  for b in [0, 300) {{ for i in [0, {0}) {{ for k in [0, {1}) {{
    block sum(space vb in [0, 300) = b, space vi in [0, {0}) = i, reduce vk in [0, {1}) = k)
        reads out[vb, vi], x[vb, vi, vk], y[vb, vk] writes out[vb, vi] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vb, vi] = 0.0f32 }}
      let old: f32 = out[vb, vi]
      let term: f32 = x[vb, vi, vk] * y[vb, vk]
      out[vb, vi] = old + term }} }} }} }} }})",
        columns, steps));
    const std::string decisions = decisions_on(func, wide(), "sum");
    int found = 0;
    const size_t at = decisions.find("dot products of ");
    if (at != std::string::npos) std::sscanf(decisions.c_str() + at, "dot products of %d", &found);
    return found;
  };
  EXPECT_EQ(lanes(3, 3), 4) << "a vector takes a row, and three are folded at once";
  EXPECT_EQ(lanes(2, 3), 2);
  EXPECT_EQ(lanes(5, 2), 4) << "of eight six would be idle";
}

Func sums_of(const std::string& term, const std::string& dtype) {
  return parse_func(fmt::format(
      R"(func sums(x: {1}[64, 100], y: {1}[80, 100], out: f32[64, 80]) stage begin {{
  for i in [0, 64) {{ for j in [0, 80) {{ for k in [0, 100) {{
    block sum(space vi in [0, 64) = i, space vj in [0, 80) = j, reduce vk in [0, 100) = k)
        reads out[vi, vj], x[vi, vk], y[vj, vk] writes out[vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj] = 0.0f32 }}
      let old: f32 = out[vi, vj]
      let term: f32 = {0}
      out[vi, vj] = old + term }} }} }} }} }})",
      term, dtype));
}

TEST(TilerDots, TakesFewFunctionsTogether) {
  const Func functions = sums_of("exp(x[vi, vk] - y[vj, vk])", "f32");
  const std::string decisions = decisions_on(functions, wide(), "sum");
  EXPECT_NE(decisions.find("tile sum: 4 rows x 1 vectors of 16 lanes"), std::string::npos) << decisions;
  expect_scheduled_well(functions);
  const std::string products =
      decisions_on(sums_of("cast<f32>(x[vi, vk]) * cast<f32>(y[vj, vk])", "i16"), wide(), "sum");
  EXPECT_EQ(products.find("tile sum: 4 rows x 1 vectors"), std::string::npos) << products;
}

}  // namespace
}  // namespace lathe::testing
