/// fold_choices, and the rule that applies it: slices that are stacked.
#include "schedule/primitives/fold_choices.h"

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

/// `count` frames of 40 elements, each of which begins at 8 times its number and `late` for the last, by weights.
Func frames(int count, const std::string& arm, int late = 0) {
  std::string value;
  for (int i = count; i-- > 0;) {
    const std::string holds =
        i + 1 == count ? fmt::format("{} < vi", i - 1) : fmt::format("{} < vi && vi < {}", i - 1, i + 1);
    const std::string here = replaced_all(
        replaced_all(arm, "AT", fmt::format("vj + {}", 8 * i + (i + 1 == count ? late : 0))), "HOLDS", holds);
    value = i + 1 == count ? here : fmt::format("select(vi < {}, {}, {})", i + 1, here, value);
  }
  return parse_func(fmt::format(R"(func frames(x: f32[400], w: f32[40], out: f32[{0}, 40]) {{
  for i in [0, {0}) {{
    for j in [0, 40) {{
      block stack(space vi in [0, {0}) = i, space vj in [0, 40) = j) reads x[..], w[vj] writes out[vi, vj] {{
        out[vi, vj] = {1} * w[vj]
      }}
    }}
  }}
}}
)",
                                count, value));
}

const std::string plain = "x[AT if HOLDS]", computed = "abs(x[AT if HOLDS] - cast<f32>(AT))";

TEST(FoldChoices, MakesOneAccessOfSlices) {
  const Func before = frames(5, computed);
  Schedule s(before);
  fold_choices(s, {"stack"}, s.loop("stack", 0));
  expect_scheduled(s, before, "fold_choices");
}

TEST(FoldChoices, RefusesArmsThatAreNotAlike) {
  for (const Func& func : {frames(5, plain, 1), frames(1, plain),
                           parse_func(replaced_all(print(frames(3, plain)), "x[vj + 8 if", "w[vj if")),
                           parse_func(replaced_all(print(frames(3, plain)), "vi < 2, x", "vi < 1, x"))}) {
    Schedule s(func);
    EXPECT_THROW(fold_choices(s, {"stack"}, s.loop("stack", 0)), Refusal) << print(func);
  }
  Schedule s(frames(5, plain));
  expect_refused(
      s, [&] { fold_choices(s, {"stack"}, s.loop("stack", 1)); }, "fold_choices", 3, "fold_choices_refused_3");
}

TEST(FoldChoices, KeepsMasksThatAreNotTheArms) {
  Schedule s(parse_func(replaced_all(print(frames(3, plain)), "vi < 1]", "vi < 1 && vj < 30]")));
  EXPECT_THROW(fold_choices(s, {"stack"}, s.loop("stack", 0)), Refusal);
}

bool folds(const Func& func) {
  const std::string decisions = decisions_on(func, wide(), "stack");
  return decisions.find("fold what stack stacks") != std::string::npos &&
         decisions.find("not fold what stack stacks") == std::string::npos;
}

TEST(FoldStacks, OfManyAndOfRows) {
  EXPECT_TRUE(folds(frames(3, plain)));
  EXPECT_TRUE(folds(frames(40, plain)));
  EXPECT_TRUE(folds(frames(20, computed)));
  EXPECT_FALSE(folds(frames(20, plain, 3)));
  expect_scheduled_well(frames(40, plain));
  expect_scheduled_well(frames(20, computed));
  expect_scheduled_well(frames(20, plain, 3));
}

}  // namespace
}  // namespace lathe::testing
