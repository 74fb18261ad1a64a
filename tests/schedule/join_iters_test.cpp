/// join_iters, and the rule that applies it: axes of sums that walk memory one behind the other.
#include "schedule/primitives/join_iters.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Rows of sums over [6, taps] of x, of such an element.
Func sums(int taps, const std::string& element, const std::string& shape) {
  return parse_func(fmt::format(R"(func sums(x: f32[{2}], out: f32[4]) {{
  for i in [0, 4) {{
    for r in [0, 6) {{
      for s in [0, {0}) {{
        block sums(space vi in [0, 4) = i, reduce vr in [0, 6) = r, reduce vs in [0, {0}) = s)
            reads x[..] writes out[vi] {{
          reducer (a: f32) (b: f32) {{a + b}} identity {{0.0f32}}
          init {{ out[vi] = 0.0f32 }}
          let a0: f32 = out[vi]
          let b0: f32 = {1}
          out[vi] = a0 + b0
        }}
      }}
    }}
  }}
}}
)",
                                taps, element, shape));
}

bool joins(int taps, const std::string& element, const std::string& shape) {
  const Func func = sums(taps, element, shape);
  expect_scheduled_well(func);
  return decisions_on(func, wide(), "sums").find("join the inner axes") != std::string::npos;
}

TEST(JoinIters, WalksTwoAxesByOneLoop) {
  const Func before = sums(9, "x[vi, vr, vs]", "4, 6, 9");
  Schedule s(before);
  const LoopRef joined = join_iters(s, {"sums"}, s.loop("sums", 1), s.loop("sums", 2));
  EXPECT_TRUE(is_int(s.node(joined).extent, 54));
  expect_scheduled(s, before, "join_iters");
}

TEST(JoinIters, RefusesAxesOfTwoKindsAndLoopsThatAreNotNeighbours) {
  Schedule s(sums(9, "x[vi, vr, vs]", "4, 6, 9"));
  expect_refused(
      s, [&] { join_iters(s, {"sums"}, s.loop("sums", 0), s.loop("sums", 1)); }, "join_iters", 2,
      "join_iters_refused_2");
  EXPECT_THROW(join_iters(s, {"sums"}, s.loop("sums", 2), s.loop("sums", 1)), Refusal);
}

TEST(JoinShortSums, JoinsAxesThatWalkMemoryAsOne) {
  EXPECT_TRUE(joins(9, "x[vi, vr, vs]", "4, 6, 9"));
  EXPECT_TRUE(joins(9, "x[vi, vr, vs] * x[vi, vr, vs]", "4, 6, 9"));
  EXPECT_TRUE(joins(1024, "x[vi, vr, vs]", "4, 6, 1024"));
  // Rows of windows, with a gap between them, and with columns between.
  EXPECT_FALSE(joins(3, "x[vi, vr, vs]", "4, 6, 9"));
  EXPECT_FALSE(joins(9, "x[vr, vi, vs]", "6, 4, 9"));
}

}  // namespace
}  // namespace lathe::testing
