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
  EXPECT_FALSE(turns(scaled("3, 12", "vk, vi", 12, 6, 3))) << "rows too short for vectors";
}

}  // namespace
}  // namespace lathe::testing
