#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rolling_buffer.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// The matmul with its k loop outside, and a panel of b staged below it.
Schedule panels() {
  Schedule s(program("matmul"));
  const BlockRef copy = cache_read(s, {"product"}, "b", "global");
  const auto [ko, ki] = split(s, s.loop("product", 2), 4);
  reorder(s, {ko, s.loop("product", 0), s.loop("product", 1), ki});
  compute_at(s, copy, ko);
  return s;
}

TEST(DoubleBuffer, FillsAPanelOneIterationAhead) {
  Schedule s = panels();
  decompose_reduction(s, {"product"}, s.loop("product", 0));
  const BlockRef first = double_buffer(s, {"b_copy"}, s.loop("product", 0));
  EXPECT_EQ(first.name, "b_copy_first");
  expect_scheduled(s, program("matmul"), "double_buffer");
}

TEST(DoubleBuffer, TakesATileThatDoesNotDivide) {
  const Func before = program("chain");
  Schedule s(before);
  const auto [jo, ji] = split(s, s.loop("shift", 1), 4);
  compute_at(s, {"scale"}, jo);
  double_buffer(s, {"scale"}, jo);
  expect_scheduled(s, before, "double_buffer_tail");
}

TEST(DoubleBuffer, RefusesAPlaceThatIsNoStageOfTheLoop) {
  Schedule s = panels();
  unroll(s, s.loop("product", 3));
  expect_refused(
      s, [&] { double_buffer(s, {"product"}, s.loop("product", 3)); }, "double_buffer", 1, "double_buffer_refused_1");
  expect_refused(
      s, [&] { double_buffer(s, {"b_copy"}, s.loop("bias", 0)); }, "double_buffer", 1,
      "double_buffer_refused_1_outside");
}

TEST(DoubleBuffer, RefusesAReduction) {
  Schedule s = panels();
  expect_refused(
      s, [&] { double_buffer(s, {"product"}, s.loop("product", 0)); }, "double_buffer", 2, "double_buffer_refused_2");
  expect_refused(
      s, [&] { double_buffer(s, {"bias"}, s.loop("bias", 0)); }, "double_buffer", 2, "double_buffer_refused_2_output");
}

TEST(DoubleBuffer, RefusesABufferThatIsUsedElsewhere) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { double_buffer(s, {"scale"}, s.loop("scale", 0)); }, "double_buffer", 3, "double_buffer_refused_3");
}

const char* const carried = R"(func carried(x: f32[9], out: f32[8]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[9]
    for i in [0, 8) {
      block t(space vi in [0, 8) = i) reads x[vi] writes t[vi + 1] {
        t[vi + 1] = x[vi]
      }
      block use(space wi in [0, 8) = i) reads t[wi] writes out[wi] {
        out[wi] = t[wi if wi >= 1]
      }
    }
  }
}
)";

const char* const changed = R"(func changes(out: f32[9]) stage begin {
  block root() reads out[..] writes out[..] {
    alloc t: f32[8]
    for i in [0, 8) {
      block t(space vi in [0, 8) = i) reads out[vi] writes t[vi] {
        t[vi] = out[vi] * 2.0f32
      }
      block use(space wi in [0, 8) = i) reads t[wi] writes out[wi + 1] {
        out[wi + 1] = t[wi]
      }
    }
  }
}
)";

TEST(DoubleBuffer, RefusesWhatAnEarlierIterationWrote) {
  Schedule s(parse_func(carried));
  expect_refused(s, [&] { double_buffer(s, {"t"}, s.loop("t", 0)); }, "double_buffer", 4, "double_buffer_refused_4");
}

TEST(DoubleBuffer, RefusesAnOperandThatTheLoopWrites) {
  Schedule s(parse_func(changed));
  expect_refused(s, [&] { double_buffer(s, {"t"}, s.loop("t", 0)); }, "double_buffer", 5, "double_buffer_refused_5");
}

TEST(DoubleBuffer, RefusesAReaderWithAnInit) {
  Schedule s(program("matmul"));
  const BlockRef copy = cache_read(s, {"product"}, "a", "global");
  compute_at(s, copy, s.loop("product", 0));
  expect_refused(
      s, [&] { double_buffer(s, copy, s.loop("product", 0)); }, "double_buffer", 6, "double_buffer_refused_6");
  decompose_reduction(s, {"product"}, s.loop("product", 1));
  double_buffer(s, copy, s.loop("product", 0));
  expect_same(program("matmul"), s.func());
}

TEST(ComputeAt, RefusesElementsThatIterationsOfAParallelLoopWouldShare) {
  Schedule s(program("matmul"));
  const BlockRef copy = cache_read(s, {"product"}, "b", "global");
  parallel(s, s.loop("product", 0));
  expect_refused(s, [&] { compute_at(s, copy, s.loop("product", 1)); }, "compute_at", 7, "compute_at_refused_7");
}

/// A stencil over rows: out[y] = t[y] + t[y + 1] + t[y + 2], of t = x * 2.
const char* const stencil = R"(func stencil(x: f32[10, 6], out: f32[8, 6]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[10, 6]
    for i in [0, 10) {
      for j in [0, 6) {
        block t(space vi in [0, 10) = i, space vj in [0, 6) = j) reads x[vi, vj] writes t[vi, vj] {
          t[vi, vj] = x[vi, vj] * 2.0f32
        }
      }
    }
    for y in [0, 8) {
      for z in [0, 6) {
        block sum(space vy in [0, 8) = y, space vz in [0, 6) = z)
            reads t[vy, vz], t[vy + 1, vz], t[vy + 2, vz]
            writes out[vy, vz]
        {
          out[vy, vz] = t[vy, vz] + t[vy + 1, vz] + t[vy + 2, vz]
        }
      }
    }
  }
}
)";

TEST(RollingBuffer, KeepsTheRowsOfAStencil) {
  const Func before = parse_func(stencil);
  Schedule s(before);
  compute_at(s, {"t"}, s.loop("sum", 0));
  const BlockRef first = rolling_buffer(s, {"t"}, s.loop("sum", 0));
  EXPECT_EQ(first.name, "t_first");
  expect_scheduled(s, before, "rolling_buffer");
}

TEST(RollingBuffer, TakesTilesOfRowsWithATail) {
  const Func before = parse_func(stencil);
  Schedule s(before);
  const auto [yo, yi] = split(s, s.loop("sum", 0), 3);
  const auto [zo, zi] = split(s, s.loop("sum", 2), 2);
  reorder(s, {zo, yo, yi, zi});
  compute_at(s, {"t"}, yo);
  rolling_buffer(s, {"t"}, yo);
  expect_scheduled(s, before, "rolling_buffer_tiles");
}

TEST(RollingBuffer, RefusesLikeEveryStage) {
  Schedule s(parse_func(stencil));
  expect_refused(
      s, [&] { rolling_buffer(s, {"t"}, s.loop("sum", 0)); }, "rolling_buffer", 1, "rolling_buffer_refused_1");
  expect_refused(
      s, [&] { rolling_buffer(s, {"sum"}, s.loop("sum", 0)); }, "rolling_buffer", 2, "rolling_buffer_refused_2");
  expect_refused(s, [&] { rolling_buffer(s, {"t"}, s.loop("t", 0)); }, "rolling_buffer", 3, "rolling_buffer_refused_3");
  Schedule other(parse_func(carried));
  expect_refused(
      other, [&] { rolling_buffer(other, {"t"}, other.loop("t", 0)); }, "rolling_buffer", 4,
      "rolling_buffer_refused_4");
  Schedule changes(parse_func(changed));
  expect_refused(
      changes, [&] { rolling_buffer(changes, {"t"}, changes.loop("t", 0)); }, "rolling_buffer", 5,
      "rolling_buffer_refused_5");
}

TEST(RollingBuffer, RefusesATileThatDoesNotOverlapTheNext) {
  Schedule s = panels();
  expect_refused(
      s, [&] { rolling_buffer(s, {"b_copy"}, s.loop("product", 0)); }, "rolling_buffer", 6, "rolling_buffer_refused_6");
}

TEST(RollingBuffer, RefusesAPredicateThatTellsIterationsApart) {
  Schedule s(parse_func(R"(func late(x: f32[10], out: f32[8]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[10]
    for y in [0, 8) {
      for k in [0, 3) {
        block t(space vi in [0, 10) = y + k) where y < 9 reads x[vi] writes t[vi] {
          t[vi] = x[vi] * 2.0f32
        }
      }
      block use(space vy in [0, 8) = y) reads t[vy], t[vy + 2] writes out[vy] {
        out[vy] = t[vy] + t[vy + 2]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { rolling_buffer(s, {"t"}, s.loop("t", 0)); }, "rolling_buffer", 7, "rolling_buffer_refused_7");
}

}  // namespace
}  // namespace lathe::testing
