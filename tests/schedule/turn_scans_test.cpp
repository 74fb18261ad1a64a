/// drop_result, cache_write of scans, and the rule that scans rows side by side.
#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/drop_result.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// y[i, j] = y[i, j - 1] * 3 + x[i, j], and the powers of 3 beside; what reads them makes `out` of them.
Func recurrence(int rows, int steps, const std::string& result = "y[wi, wj] + 1i32") {
  return parse_func(fmt::format(R"(func recurrence(x: i32[{0}, {1}], out: i32[{0}, {1}]) {{
  block root() reads x[..] writes out[..] {{
    alloc p: i32[{0}, {1}]
    alloc y: i32[{0}, {1}]
    for i in [0, {0}) {{
      for j in [0, {1}) {{
        block scan(space vi in [0, {0}) = i, ordered vj in [0, {1}) = j)
            reads p[vi, vj - 1], y[vi, vj - 1], x[..]
            writes p[vi, vj], y[vi, vj]
        {{
          p[vi, vj] = select(vj >= 1, p[vi, vj - 1 if vj >= 1], 1i32) * 3i32
          y[vi, vj] = y[vi, vj - 1 if vj >= 1] * 3i32 + x[vi, vj]
        }}
      }}
    }}
    for i in [0, {0}) {{
      for j in [0, {1}) {{
        block read(space wi in [0, {0}) = i, space wj in [0, {1}) = j) reads {3}y[wi, wj] writes out[wi, wj] {{
          out[wi, wj] = {2}
        }}
      }}
    }}
  }}
}}
)",
                                rows, steps, result, result.find("p[") == std::string::npos ? "" : "p[wi, wj], "));
}

TEST(DropResult, OfAScan) {
  const Func before = recurrence(2, 5);
  Schedule s(before);
  drop_result(s, {"scan"}, "p");
  expect_scheduled(s, before, "drop_result");
}

TEST(DropResult, RefusesWhatIsRead) {
  Schedule s(recurrence(2, 5, "y[wi, wj] + p[wi, wj]"));
  expect_refused(s, [&] { drop_result(s, {"scan"}, "p"); }, "drop_result", 2, "drop_result_refused_2");
  EXPECT_THROW(drop_result(s, {"scan"}, "y"), Refusal);
  const Func crossed = parse_func(replaced_all(print(recurrence(2, 5)), "* 3i32 + x", "* 3i32 + p[vi, vj] + x"));
  Schedule reads(crossed);
  EXPECT_THROW(drop_result(reads, {"scan"}, "p"), Refusal) << "the other result is made of it";
}

TEST(DropResult, RefusesWhatIsNoResultBeside) {
  Schedule s(recurrence(2, 5));
  EXPECT_THROW(drop_result(s, {"scan"}, "out"), Refusal);
  EXPECT_THROW(drop_result(s, {"read"}, "out"), Refusal) << "an output";
  drop_result(s, {"scan"}, "p");
  EXPECT_THROW(drop_result(s, {"scan"}, "y"), Refusal) << "the only one";
}

TEST(CacheWrite, OfOneOfTheResultsOfAScan) {
  const Func before = recurrence(2, 5);
  Schedule s(before);
  EXPECT_THROW(cache_write(s, {"scan"}, space::global), Refusal) << "of which of the two";
  EXPECT_THROW(cache_write(s, {"scan"}, space::global, "x"), Refusal);
  cache_write(s, {"scan"}, space::global, "y");
  expect_scheduled(s, before, "cache_write_scan");
}

bool turns(const Func& func) {
  return decisions_on(func, wide(), "scan").find("rows of scan side by side") != std::string::npos;
}

TEST(TurnScans, OfRowsThatFillVectors) {
  EXPECT_TRUE(turns(recurrence(16, 40)));
  EXPECT_TRUE(turns(recurrence(100, 9)));
  EXPECT_TRUE(turns(recurrence(2, 40)));
  EXPECT_FALSE(turns(recurrence(1, 40))) << "too few rows";
  EXPECT_FALSE(turns(recurrence(100, 4))) << "too few steps";
  for (const int rows : {2, 3, 5, 7, 8, 16, 21, 100}) {
    expect_scheduled_well(recurrence(rows, 12));
    expect_scheduled_well(recurrence(rows, 12, "y[wi, wj] + p[wi, wj]"));
  }
}

TEST(TurnScans, TakesOperandsAsTheyLie) {
  const std::string text = print(recurrence(16, 16));
  for (const char* operand :
       {"x[vj, vi]", "x[vi, 15 - vj]", "x[vi, 0]", "x[0, vj]", "x[vi, vj] + x[vj, vi]", "x[vi, vi]"})
    expect_scheduled_well(parse_func(replaced_all(text, "* 3i32 + x[vi, vj]", fmt::format("* 3i32 + {}", operand))));
}

}  // namespace
}  // namespace lathe::testing
