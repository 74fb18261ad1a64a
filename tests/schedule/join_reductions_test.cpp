#include "schedule/auto/join_reductions.h"

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// NAME, one number that OP makes of TERM over rows of x of 4 x 320.
std::string reduction(const std::string& name, const std::string& op, const std::string& identity,
                      const std::string& term, const std::string& reads) {
  return fmt::format(R"(    for i_{0} in [0, 4) {{ for k_{0} in [0, 320) {{
      block {0}(reduce vi_{0} in [0, 4) = i_{0}, reduce vk_{0} in [0, 320) = k_{0}) reads {4}{0}[] writes {0}[] {{
        reducer (l_{0}: f32) (r_{0}: f32) {{{1}(l_{0}, r_{0})}} identity {{{2}}}
        init {{ {0}[] = {2} }}
        let a_{0}: f32 = {0}[]
        let b_{0}: f32 = {3}
        {0}[] = {1}(a_{0}, b_{0}) }} }} }}
)",
                     name, op, identity, term, reads);
}

Func two_reductions(const std::string& second_term, const std::string& second_reads) {
  return parse_func(
      "func extremes(x: f32[4, 320], low: f32[], high: f32[]) stage begin {\n"
      "  block root() reads x[..], low[], high[] writes low[], high[] {\n" +
      reduction("low", "min", "inf(f32)", "x[vi_low, vk_low]", "x[vi_low, vk_low], ") +
      reduction("high", "max", "-inf(f32)", second_term, second_reads) + "} }");
}

bool in_one_pass(const Func& func) {
  expect_scheduled_well(func);
  return decisions_on(func, wide(), "low").find("in one pass") != std::string::npos;
}

TEST(JoinReductions, LoadsOnceWhatBothReduce) {
  const Func func = two_reductions("x[vi_high, vk_high]", "x[vi_high, vk_high], ");
  EXPECT_TRUE(in_one_pass(func));
  expect_golden(print(auto_schedule(func, wide())), "auto_one_pass.tir");
}

TEST(JoinReductions, LeavesApartWhatWaitsOrReadsOtherElements) {
  EXPECT_FALSE(in_one_pass(two_reductions("x[vi_high, vk_high] - low[]", "x[vi_high, vk_high], low[], ")));
  EXPECT_FALSE(in_one_pass(two_reductions("x[vi_high, 319 - vk_high]", "x[vi_high, 319 - vk_high], ")));
}

/// A sum NAME of so many terms.
std::string sum(const std::string& name, const std::string& term, const std::string& reads) {
  return fmt::format(R"(    for k_{0} in [0, 20000) {{
      block {0}(reduce vk_{0} in [0, 20000) = k_{0}) reads {2}{0}[] writes {0}[] {{
        reducer (l_{0}: f32) (r_{0}: f32) {{l_{0} + r_{0}}} identity {{0.0f32}}
        init {{ {0}[] = 0.0f32 }}
        let a_{0}: f32 = {0}[]
        let b_{0}: f32 = {1}
        {0}[] = a_{0} + b_{0} }} }}
)",
                     name, term, reads);
}

TEST(JoinReductions, LoadsOnceWhatBothSumInParts) {
  const auto sums = [](const std::string& term, const std::string& reads) {
    return parse_func(
        "func sums(x: f32[20000], low: f32[], high: f32[]) stage begin {\n"
        "  block root() reads x[..], low[], high[] writes low[], high[] {\n" +
        sum("low", "x[vk_low]", "x[vk_low], ") + sum("high", term, reads) + "} }");
  };
  EXPECT_TRUE(in_one_pass(sums("x[vk_high] * 2.0f32", "x[vk_high], ")));
  EXPECT_FALSE(in_one_pass(sums("min(x[vk_high], low[])", "x[vk_high], low[], ")));
}

}  // namespace
}  // namespace lathe::testing
