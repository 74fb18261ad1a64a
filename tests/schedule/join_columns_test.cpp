/// The rule that joins axes of a reduction's results into columns that go on from row to row.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums over `steps` arrays of `rows` by `columns`, the first so many of `pitch`.
Func sums(int steps, int rows, int columns, int pitch) {
  return parse_func(fmt::format(R"(
func sums(x: f32[{0}, {1}, {3}], out: f32[{1}, {2}]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, {1}) {{
      for j in [0, {2}) {{
        for r in [0, {0}) {{
          block total(space vi in [0, {1}) = i, space vj in [0, {2}) = j, reduce vr in [0, {0}) = r)
              reads x[vr, vi, vj], out[vi, vj] writes out[vi, vj] {{
            reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
            init {{ out[vi, vj] = 0.0f32 }}
            let l: f32 = out[vi, vj]
            let t: f32 = x[vr, vi, vj]
            out[vi, vj] = l + t
          }}
        }}
      }}
    }}
  }}
}}
)",
                                steps, rows, columns, pitch));
}

bool joins(const Func& func) {
  ScheduleLog log;
  expect_same(func, auto_schedule(func, wide(), &log));
  return std::find(log.decisions.begin(), log.decisions.end(), "join the columns of total") != log.decisions.end();
}

TEST(JoinColumns, OfRowsThatAreNoWholeVectors) {
  EXPECT_TRUE(joins(sums(16, 5, 7, 7)));
  EXPECT_TRUE(joins(sums(17, 3, 35, 35)));
  EXPECT_FALSE(joins(sums(16, 5, 32, 32))) << "whole vectors";
  EXPECT_FALSE(joins(sums(15, 5, 7, 7))) << "the copy is too large a part";
  EXPECT_FALSE(joins(sums(16, 5, 7, 8))) << "rows lie apart";
  EXPECT_FALSE(joins(sums(16, 2, 1003, 1003))) << "ends are a small part";
}

TEST(JoinColumns, MakesOneAxisOfTheirResults) {
  const std::string text = print(auto_schedule(sums(16, 5, 7, 7), wide()));
  EXPECT_NE(text.find("alloc out_global: f32[35]"), std::string::npos) << text;
}

}  // namespace
}  // namespace lathe::testing
