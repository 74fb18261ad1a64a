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

TEST(WeaveVectors, WeavesManyWhereEachStepTakesAnotherArm) {
  EXPECT_TRUE(decides(matrices(100), wide(), "weave stack"));
  const std::string text = replaced_all(replaced_all(print(matrices(100)), "vj * 3 + vk < 1", "vj * 3 + vk < 2"),
                                        "0 < vj * 3 + vk", "1 < vj * 3 + vk");
  EXPECT_FALSE(decides(parse_func(text), wide(), "weave stack")) << "two steps share an arm, as in padding";
}

}  // namespace
}  // namespace lathe::testing
