#include <fmt/format.h>

#include "ir/text/parse.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[i, j, k] = x[`place`] * y[i, j], of `n` x `m` x `k` elements.
Func scaled(const std::string& x, const std::string& place, int n, int m, int k) {
  return parse_func(fmt::format(R"(func scaled(x: f32[{0}], y: f32[{2}, {3}], out: f32[{2}, {3}, {4}]) stage begin {{
  for i in [0, {2}) {{ for j in [0, {3}) {{ for k in [0, {4}) {{
    block scaled(space vi in [0, {2}) = i, space vj in [0, {3}) = j, space vk in [0, {4}) = k)
        reads x[{1}], y[vi, vj] writes out[vi, vj, vk] {{
      out[vi, vj, vk] = x[{1}] * y[vi, vj] }} }} }} }} }})",
                                x, place, n, m, k));
}

bool turns(const Func& func) {
  return decisions_on(func, wide(), "scaled").find("turn x around once for scaled\n") != std::string::npos;
}

TEST(TurnRepeated, CopiesWhatIsReadAgainAndAgainAcrossTheResult) {
  const Func func = scaled("33, 12", "vk, vi", 12, 6, 33);
  EXPECT_TRUE(turns(func)) << decisions_on(func, wide(), "scaled");
  expect_scheduled_well(func);
  // The loop along which results lie is not the innermost.
  const Func outer = parse_func(R"(func scaled(x: f32[12, 33], y: f32[6, 12], out: f32[6, 12, 33]) stage begin {
  for k in [0, 33) { for j in [0, 6) { for i in [0, 12) {
    block scaled(space vk in [0, 33) = k, space vj in [0, 6) = j, space vi in [0, 12) = i)
        reads x[vi, vk], y[vj, vi] writes out[vj, vi, vk] {
      out[vj, vi, vk] = x[vi, vk] * y[vj, vi] } } } } })");
  EXPECT_FALSE(turns(outer)) << "it lies along the result";
  const Func across = parse_func(R"(func scaled(x: f32[33, 12], y: f32[6, 12], out: f32[6, 12, 33]) stage begin {
  for k in [0, 33) { for j in [0, 6) { for i in [0, 12) {
    block scaled(space vk in [0, 33) = k, space vj in [0, 6) = j, space vi in [0, 12) = i)
        reads x[vk, vi], y[vj, vi] writes out[vj, vi, vk] {
      out[vj, vi, vk] = x[vk, vi] * y[vj, vi] } } } } })");
  EXPECT_TRUE(turns(across)) << decisions_on(across, wide(), "scaled");
  expect_scheduled_well(across);
}

TEST(TurnRepeated, LeavesWhatLiesAlongTheResultOrIsReadAFewTimes) {
  EXPECT_FALSE(turns(scaled("12, 33", "vi, vk", 12, 6, 33)));
  EXPECT_FALSE(turns(scaled("12, 6", "vi, vj", 12, 6, 33)));
  EXPECT_FALSE(turns(scaled("12, 33", "vi, 32 - vk", 12, 6, 33))) << "backwards along it";
  EXPECT_FALSE(turns(scaled("33, 12", "vk, vi", 12, 3, 33)));
  EXPECT_FALSE(turns(scaled("33, 6, 12", "vk, vj, vi", 12, 6, 33)));
}

/// out[i, j, k, l] = x[k, j, l] * y[k, i], of `times` i, and rows of `l`.
Func outer(int times, int l) {
  return parse_func(
      fmt::format(R"(func outer(x: f32[9, 7, {1}], y: f32[9, {0}], out: f32[{0}, 7, 9, {1}]) stage begin {{
  for i in [0, {0}) {{ for j in [0, 7) {{ for k in [0, 9) {{ for l in [0, {1}) {{
    block scaled(space vi in [0, {0}) = i, space vj in [0, 7) = j, space vk in [0, 9) = k, space vl in [0, {1}) = l)
        reads x[vk, vj, vl], y[vk, vi] writes out[vi, vj, vk, vl] {{
      out[vi, vj, vk, vl] = x[vk, vj, vl] * y[vk, vi] }} }} }} }} }} }})",
                  times, l));
}

TEST(TurnRepeated, CopiesRunsThatDoNotGoOnWhereTheResultDoes) {
  const auto decisions = [](const Func& func) { return decisions_on(func, wide(), "scaled"); };
  for (const int l : {2, 3, 8}) {
    const Func func = outer(6, l);
    EXPECT_TRUE(turns(func)) << decisions(func);
    EXPECT_NE(decisions(func).find("turn y around once for scaled\n"), std::string::npos)
        << "its lanes are one element";
    expect_scheduled_well(func);
  }
  EXPECT_FALSE(turns(outer(4, 8))) << "read a few times";
  EXPECT_FALSE(turns(outer(6, 16))) << "runs of a line";
  Device few_sets = wide();
  few_sets.caches = {{512, 1, 64, false}};
  EXPECT_NE(decisions_on(outer(6, 16), few_sets, "scaled").find("turn x around once"), std::string::npos)
      << "nine of which push each other out";
  EXPECT_EQ(decisions_on(outer(6, 64), few_sets, "scaled").find("turn x around once"), std::string::npos);
  // Pairs in the order of the result, and across it.
  EXPECT_TRUE(turns(scaled("3, 12", "vk, vi", 12, 6, 3)));
  expect_scheduled_well(scaled("3, 12", "vk, vi", 12, 6, 3));
}

}  // namespace
}  // namespace lathe::testing
