#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

TEST(AutoSchedule, SharesOutOnlyWhatTakesLongerThanATask) {
  const auto is_parallel = [](const Func& func) {
    bool found = false;
    for_each_stmt(auto_schedule(func, wide())->body,
                  [&](const Stmt& s) { found |= s.as<For>() && s.as<For>()->for_kind == ForKind::parallel; });
    return found;
  };
  EXPECT_FALSE(is_parallel(matmul(32, 48, 64, false)));
  EXPECT_TRUE(is_parallel(matmul(128, 96, 128, false)));
}

/// Two maps that have nothing in common.
Func two_maps(int first, int second) {
  return parse_func(fmt::format(
      R"(func maps(x: f32[{0}, 128], y: f32[{1}, 128], a: f32[{0}, 128], b: f32[{1}, 128]) stage begin {{
  block root() reads x[..], y[..] writes a[..], b[..] {{
    for i in [0, {0}) {{ for j in [0, 128) {{
      block one(space vi in [0, {0}) = i, space vj in [0, 128) = j) reads x[vi, vj] writes a[vi, vj] {{
        a[vi, vj] = x[vi, vj] + 1.0f32 }} }} }}
    for k in [0, {1}) {{ for l in [0, 128) {{
      block two(space vk in [0, {1}) = k, space vl in [0, 128) = l) reads y[vk, vl] writes b[vk, vl] {{
        b[vk, vl] = y[vk, vl] + 1.0f32 }} }} }} }} }})",
      first, second));
}

TEST(AutoSchedule, SharesOutShorterLoopsBesideALongOneWhichWakesTheWorkers) {
  const auto shared = [](int first, int second) {
    const std::string text = print(auto_schedule(two_maps(first, second), wide()));
    int count = 0;
    for (size_t at = 0; (at = text.find("parallel for", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(shared(700, 700), 0);
  EXPECT_EQ(shared(9000, 700), 2);
  EXPECT_EQ(shared(700, 9000), 2);
  EXPECT_EQ(shared(90000, 700), 2);
  EXPECT_EQ(shared(300000, 700), 2);
  EXPECT_EQ(shared(1200000, 700), 1) << "less than a thousandth is not worth a function of its own";
  EXPECT_EQ(shared(9000, 20), 1);
}

}  // namespace
}  // namespace lathe::testing
