#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// x · yT, into a result along which no vector can walk and that has no size to be collected in.
Func into_anywhere() {
  return parse_func(R"(
func product(x: f32[n, 32], y: f32[16, 32], out: f32[n, 16] strides [s, t], n: i64, s: i64, t: i64) stage begin
    facts {n in [2, 16], s in [16, 64], t in [1, 1]}
{
  for i in [0, n) { for j in [0, 16) { for k in [0, 32) {
    block product(space vi in [0, n) = i, space vj in [0, 16) = j, reduce vk in [0, 32) = k)
        reads out[vi, vj], x[vi, vk], y[vj, vk] writes out[vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vj] = 0.0f32 }
      let l: f32 = out[vi, vj]
      let r: f32 = x[vi, vk] * y[vj, vk]
      out[vi, vj] = l + r
    }
  } } }
}
)");
}

TEST(AutoSchedule, CopiesNoOperandOfAProductThatIsNotTiled) {
  ScheduleLog log;
  const std::string text = print(auto_schedule(into_anywhere(), wide(), &log));
  ASSERT_GE(log.decisions.size(), 2);
  EXPECT_EQ(log.decisions[0], "turn y around for product");
  EXPECT_EQ(log.decisions[1], "leave the operands of product where they lie: nothing tiles it");
  EXPECT_EQ(text.find("y_global"), std::string::npos) << text;
  EXPECT_NE(text.find("vectorized for"), std::string::npos) << text;
}

}  // namespace
}  // namespace lathe::testing
