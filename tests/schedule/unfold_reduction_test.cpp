/// unfold_reduction, and the rule that applies it: reductions along an axis where tensors are stacked.
#include "schedule/primitives/unfold_reduction.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Three tensors, stacked along an axis that is reduced, and weighted.
Func stacked(const std::string& reducer, const std::string& identity, int rows, int columns) {
  return parse_func(fmt::format(R"(func stacked(a: f32[{2}, {3}], b: f32[{2}, {3}], w: f32[3], out: f32[{2}]) {{
  for i in [0, {2}) {{
    for r in [0, 3) {{
      for k in [0, {3}) {{
        block total(space vi in [0, {2}) = i, reduce vr in [0, 3) = r, reduce vk in [0, {3}) = k)
            reads a[..], b[..], w[..], out[vi] writes out[vi] {{
          reducer (lhs: f32) (rhs: f32) {{{0}}} identity {{{1}}}
          init {{ out[vi] = {1} }}
          let l: f32 = out[vi]
          let t: f32 = w[vr] * select(vr < 1, a[vi, vk if vr < 1],
                                      select(vr < 2, b[vi, vk if 0 < vr && vr < 2], a[vi, vk if 1 < vr] + 1.0f32))
          out[vi] = {4}
        }}
      }}
    }}
  }}
}}
)",
                                reducer, identity, rows, columns,
                                replaced_all(replaced_all(reducer, "lhs", "l"), "rhs", "t")));
}

TEST(UnfoldReduction, LeavesAReductionOverOtherAxes) {
  const Func before = stacked("lhs + rhs", "0.0f32", 4, 5);
  Schedule s(before);
  unfold_reduction(s, {"total"}, s.loop("total", 1));
  expect_scheduled(s, before, "unfold_reduction");
}

TEST(UnfoldReduction, LeavesAnElementwiseBlockWhereNothingIsReducedAnyMore) {
  const Func before = stacked("max(lhs, rhs)", "-inf(f32)", 4, 5);
  Schedule s(before);
  unfold_reduction(s, {"total"}, s.loop("total", 2));
  unfold_reduction(s, {"total"}, s.loop("total", 1));
  expect_scheduled(s, before, "unfold_reduction_whole");
}

TEST(UnfoldReduction, RefusesAnAxisOfResults) {
  Schedule s(stacked("lhs + rhs", "0.0f32", 4, 5));
  expect_refused(
      s, [&] { unfold_reduction(s, {"total"}, s.loop("total", 0)); }, "unfold_reduction", 3,
      "unfold_reduction_refused_3");
}

TEST(UnfoldReduction, RefusesALongAxis) {
  Schedule s(stacked("lhs + rhs", "0.0f32", 2, 65));
  EXPECT_THROW(unfold_reduction(s, {"total"}, s.loop("total", 2)), Refusal);
}

TEST(UnfoldReduction, RefusesTuplesAndOtherStarts) {
  Schedule other(
      parse_func(replaced_all(print(stacked("lhs + rhs", "0.0f32", 4, 5)), "out[vi] = 0.0f32", "out[vi] = 2.0f32")));
  expect_refused(
      other, [&] { unfold_reduction(other, {"total"}, other.loop("total", 1)); }, "unfold_reduction", 4,
      "unfold_reduction_refused_4");
}

bool unfolds(const Func& func) {
  return decisions_on(func, wide(), "total").find("unfold what total stacks") != std::string::npos;
}

TEST(UnfoldStacks, TakesOneTensorAStep) {
  EXPECT_TRUE(unfolds(stacked("lhs + rhs", "0.0f32", 40, 33)));
  EXPECT_TRUE(unfolds(stacked("max(lhs, rhs)", "-inf(f32)", 40, 33)));
  expect_scheduled_well(stacked("lhs + rhs", "0.0f32", 40, 33));
}

TEST(UnfoldStacks, LeavesAxesWhereSeveralStepsTakeOneArm) {
  const std::string text = print(stacked("lhs + rhs", "0.0f32", 40, 33));
  EXPECT_FALSE(unfolds(parse_func(replaced_all(replaced_all(text, "vr < 1", "vr < 2"), "0 < vr", "1 < vr"))));
}

}  // namespace
}  // namespace lathe::testing
