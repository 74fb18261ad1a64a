/// The rules for tensors that are stacked along an axis of a result: join_stacked_axes, weave_vectors.
#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// Six tensors stacked to matrices of 2 x 3.
Func matrices(int count) {
  return parse_func(fmt::format(R"(func matrices(x: f32[{0}, 4], out: f32[{0}, 2, 3]) {{
  for i in [0, {0}) {{
    for j in [0, 2) {{
      for k in [0, 3) {{
        block stack(space vi in [0, {0}) = i, space vj in [0, 2) = j, space vk in [0, 3) = k) reads x[vi, ..] writes out[vi, vj, vk] {{
          out[vi, vj, vk] = select(vj * 3 + vk < 1, x[vi, 0 if vj * 3 + vk < 1],
                            select(vj * 3 + vk < 2, x[vi, 1 if 0 < vj * 3 + vk && vj * 3 + vk < 2] * x[vi, 2 if 0 < vj * 3 + vk && vj * 3 + vk < 2],
                            select(vj * 3 + vk < 3, x[vi, 2 if 1 < vj * 3 + vk && vj * 3 + vk < 3],
                            select(vj * 3 + vk < 4, x[vi, 0 if 2 < vj * 3 + vk && vj * 3 + vk < 4],
                            select(vj * 3 + vk < 5, x[vi, 3 if 3 < vj * 3 + vk && vj * 3 + vk < 5],
                                   x[vi, 1 if 4 < vj * 3 + vk])))))
        }}
      }}
    }}
  }}
}}
)",
                                count));
}

bool decides(const Func& func, const Device& device, const std::string& what) {
  const std::string decisions = decisions_on(func, device, "stack");
  return decisions.find(what) != std::string::npos && decisions.find("not " + what) == std::string::npos;
}

TEST(JoinStackedAxes, JoinsAxesThatAStackWasReshapedTo) {
  EXPECT_TRUE(decides(matrices(100), wide(), "join the axes of stack"));
  expect_golden(print(auto_schedule(matrices(100), wide())), "auto_stacked_matrices.tir");
  expect_scheduled_well(matrices(100));
  expect_scheduled_well(matrices(19));
}

TEST(JoinStackedAxes, LeavesAxesOfWhichOneIsAskedForByItself) {
  const std::string text = replaced_all(print(matrices(100)), "out[vi, vj, vk] = select(",
                                        "out[vi, vj, vk] = select(vk < 1, 2.0f32, 3.0f32) * select(");
  EXPECT_FALSE(decides(parse_func(text), wide(), "join the axes of stack"));
}

TEST(JoinStackedAxes, LeavesWhatItJoinedAsOne) {
  // Digits of the axis are asked for by nothing but the store's places, which go on by a step.
  std::string value = "x[vi if 4 < vj * 3 + vk] * y[vi if 4 < vj * 3 + vk] / x[vi if 4 < vj * 3 + vk]";
  for (int k = 5; k-- > 0;) {
    const std::string mask =
        k == 0 ? "vj * 3 + vk < 1" : fmt::format("{} < vj * 3 + vk && vj * 3 + vk < {}", k - 1, k + 1);
    value = fmt::format("select(vj * 3 + vk < {}, {}[vi if {}], {})", k + 1, k % 2 ? "x" : "y", mask, value);
  }
  const Func func = parse_func(fmt::format(R"(func matrices(x: f32[400], y: f32[400], out: f32[400, 2, 3]) {{
  for i in [0, 400) {{
    for j in [0, 2) {{
      for k in [0, 3) {{
        block stack(space vi in [0, 400) = i, space vj in [0, 2) = j, space vk in [0, 3) = k)
            reads x[vi], y[vi] writes out[vi, vj, vk] {{
          out[vi, vj, vk] = {} }} }} }} }} }}
)",
                                           value));
  EXPECT_TRUE(decides(func, wide(), "weave stack")) << decisions_on(func, wide(), "stack");
  expect_scheduled_well(func);
}

TEST(WeaveVectors, WeavesManyWhereEachStepTakesAnotherArm) {
  EXPECT_TRUE(decides(matrices(100), wide(), "weave stack"));
  const std::string text = replaced_all(replaced_all(print(matrices(100)), "vj * 3 + vk < 1", "vj * 3 + vk < 2"),
                                        "0 < vj * 3 + vk", "1 < vj * 3 + vk");
  EXPECT_FALSE(decides(parse_func(text), wide(), "weave stack")) << "two steps share an arm, as in padding";
}

/// Four arms, two stacks in a stack.
Func squares(const std::string& arms) {
  return parse_func(fmt::format(R"(func squares(x: f32[100, 4], out: f32[100, 2, 2]) {{
  for i in [0, 100) {{
    for j in [0, 2) {{
      for k in [0, 2) {{
        block stack(space vi in [0, 100) = i, space vj in [0, 2) = j, space vk in [0, 2) = k) reads x[vi, ..] writes out[vi, vj, vk] {{
          out[vi, vj, vk] = {} }} }} }} }} }}
)",
                                arms));
}

TEST(WeaveVectors, WeavesStacksWithinAStack) {
  const Func four = squares(
      "select(vj < 1, select(vk < 1, x[vi, 0 if vj < 1 && vk < 1], x[vi, 2 if vj < 1 && 0 < vk] * 2.0f32), "
      "select(vk < 1, x[vi, 1 if 0 < vj && vk < 1], x[vi, 3 if 0 < vj && 0 < vk] + 1.0f32))");
  EXPECT_TRUE(decides(four, wide(), "weave stack")) << decisions_on(four, wide(), "stack");
  expect_scheduled_well(four);
  const Func one = squares("select(vk < 1, x[vi, 0 if vk < 1], x[vi, 2 if 0 < vk] * 2.0f32)");
  EXPECT_FALSE(decides(one, wide(), "cut stack")) << "rows of two elements are cut no further";
  expect_scheduled_well(one);
}

TEST(WeaveVectors, UnrollsRowsThatAreChosenBesideWhatIsWoven) {
  const Func func = parse_func(R"(func rows(x: f32[40, 100], y: f32[40, 100], out: f32[80, 200]) {
  for i in [0, 80) {
    for j in [0, 200) {
      block stack(space vi in [0, 80) = i, space vj in [0, 200) = j) reads x[..], y[..] writes out[vi, vj] {
        out[vi, vj] = select(vi % 2 < 1, select(vj % 2 < 1, x[vi // 2, vj // 2 if vi % 2 < 1 && vj % 2 < 1], y[vi // 2, vj // 2 if vi % 2 < 1 && 0 < vj % 2]),
                             select(vj % 2 < 1, x[vi // 2, vj // 2 if 0 < vi % 2 && vj % 2 < 1] * 2.0f32, 3.0f32 - y[vi // 2, vj // 2 if 0 < vi % 2 && 0 < vj % 2])) } } } }
)");
  EXPECT_TRUE(decides(func, wide(), "weave stack")) << decisions_on(func, wide(), "stack");
  const std::string text = print(auto_schedule(func, wide()));
  EXPECT_NE(text.find("unrolled"), text.rfind("unrolled")) << text;
  expect_scheduled_well(func);
}

}  // namespace
}  // namespace lathe::testing
