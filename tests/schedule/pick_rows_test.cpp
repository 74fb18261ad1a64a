#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[i, j] = VALUE of x[i, column[j]], columns cut off to those that there are.
Func take_columns(int rows, const std::string& value = "{}") {
  const std::string picked = "x[vi, min(max(column[vj], 0), 29)]";
  return parse_func(fmt::format(
      R"(func take(x: f32[{0}, 30], column: i64[20], out: f32[{0}, 20]) stage begin {{
  block root() reads x[..], column[..] writes out[..] {{
    for i in [0, {0}) {{ for j in [0, 20) {{
      block take(space vi in [0, {0}) = i, space vj in [0, 20) = j) reads x[vi, ..], column[vj] writes out[vi, vj] {{
        out[vi, vj] = {1} }} }} }} }} }})",
      rows, fmt::format(fmt::runtime(value), picked)));
}

std::string decision(const Func& func) {
  expect_scheduled_well(func);
  return decisions_on(func, wide(), "take");
}

TEST(PickRows, CopiesSeveralRowsForEachIndex) {
  EXPECT_EQ(decision(take_columns(8)), "copy take by 4 rows for each index\n");
  EXPECT_EQ(decision(take_columns(15)), "copy take by 5 rows for each index\n");
  expect_golden(print(auto_schedule(take_columns(8), wide())), "auto_pick_rows.tir");
}

TEST(PickRows, LeavesRowsThatDoNotDivideAndWhatComputes) {
  EXPECT_EQ(decision(take_columns(11)).find("rows for each index"), std::string::npos);
  EXPECT_EQ(decision(take_columns(8, "exp({})")).find("rows for each index"), std::string::npos);
}

}  // namespace
}  // namespace lathe::testing
