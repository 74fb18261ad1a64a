#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/blockize.h"

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(ReverseComputeAt, MovesAConsumerBehindATileOfItsOperand) {
  const Func before = program("chain");
  Schedule s(before);
  const auto [outer, inner] = split(s, s.loop("scale", 0), 4);
  const auto [columns, column] = split(s, s.loop("scale", 2), 5);
  reorder(s, {outer, columns, inner, column});
  reverse_compute_at(s, {"shift"}, columns);
  expect_scheduled(s, before, "reverse_compute_at");
}

TEST(ReverseComputeAt, MovesAReductionBehindARow) {
  const Func before = parse_func(R"(func row_sums(x: f32[4, 10], out: f32[4]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[4, 10]
    for i in [0, 4) {
      for j in [0, 10) {
        block t(space vi in [0, 4) = i, space vj in [0, 10) = j) reads x[vi, vj] writes t[vi, vj] {
          t[vi, vj] = x[vi, vj] * x[vi, vj]
        }
      }
    }
    for i1 in [0, 4) {
      for k in [0, 10) {
        block sum(space wi in [0, 4) = i1, reduce wk in [0, 10) = k) reads out[wi], t[wi, wk] writes out[wi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            out[wi] = 0.0f32
          }
          let l: f32 = out[wi]
          let r: f32 = t[wi, wk]
          out[wi] = l + r
        }
      }
    }
  }
}
)");
  Schedule s(before);
  reverse_compute_at(s, {"sum"}, s.loop("t", 0));
  expect_scheduled(s, before, "reverse_compute_at_reduction");
}

TEST(ReverseComputeAt, MovesAConsumerBehindAFinishedReduction) {
  const Func before = program("matmul");
  Schedule s(before);
  reverse_compute_at(s, {"bias"}, s.loop("product", 1));
  expect_scheduled(s, before, "reverse_compute_at_epilogue");
}

TEST(ReverseComputeAt, RefusesAConsumerWhoseLoopsWereSplit) {
  Schedule s(program("chain"));
  split(s, s.loop("shift", 1), 4);
  expect_refused(
      s, [&] { reverse_compute_at(s, {"shift"}, s.loop("scale", 0)); }, "reverse_compute_at", 1,
      "reverse_compute_at_refused_1");
}

TEST(ReverseComputeAt, RefusesALoopThatComesBehind) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"scale"}, s.loop("shift", 0)); }, "reverse_compute_at", 2,
      "reverse_compute_at_refused_2");
}

TEST(ReverseComputeAt, RefusesWhatOneIterationDoesNotWrite) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"store"}, s.loop("shift", 1)); }, "reverse_compute_at", 3,
      "reverse_compute_at_refused_3");
  expect_refused(
      s, [&] { reverse_compute_at(s, {"store"}, s.loop("scale", 0)); }, "reverse_compute_at", 3,
      "reverse_compute_at_refused_3_nothing");
}

/// The scan itself reads what an earlier iteration wrote; that must not hide what its reader reads of a later one.
TEST(ReverseComputeAt, RefusesWhatAScanHasYetToReach) {
  Schedule s(parse_func(R"(func ahead(x: f32[9, 3], out: f32[7, 3]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[9, 3]
    for i in [0, 9) { for j in [0, 3) {
      block t(ordered vi in [0, 9) = i, space vj in [0, 3) = j) reads t[vi - 1, vj], x[vi, vj] writes t[vi, vj] {
        t[vi, vj] = t[vi - 1, vj if vi >= 1] + x[vi, vj] } } }
    for i1 in [0, 7) { for j1 in [0, 3) {
      block use(space wi in [0, 7) = i1, space wj in [0, 3) = j1) reads t[wi, wj], t[wi + 2, wj] writes out[wi, wj] {
        out[wi, wj] = t[wi, wj] - t[wi + 2, wj] } } } } })"));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"use"}, s.loop("t", 0)); }, "reverse_compute_at", 3,
      "reverse_compute_at_refused_3_scan");
}

TEST(ReverseComputeAt, RefusesAReductionThatIsNotFinished) {
  Schedule s(program("matmul"));
  reorder(s, {s.loop("product", 2), s.loop("product", 1)});
  expect_refused(
      s, [&] { reverse_compute_at(s, {"bias"}, s.loop("product", 2)); }, "reverse_compute_at", 4,
      "reverse_compute_at_refused_4");
}

TEST(ReverseComputeAt, RefusesWhatIsWrittenBetweenThem) {
  Schedule s(program("between"));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"use"}, s.loop("t", 0)); }, "reverse_compute_at", 5,
      "reverse_compute_at_refused_5");
}

TEST(ReverseComputeAt, RefusesATileWhoseOperandIsWrittenBetweenThem) {
  Schedule s(parse_func(R"(func centre(x: f32[4, 6], out: f32[4, 6]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[4, 6]
    alloc mean: f32[4]
    for i in [0, 4) { for j in [0, 6) {
      block t(space vi in [0, 4) = i, space vj in [0, 6) = j) reads x[vi, vj] writes t[vi, vj] {
        t[vi, vj] = x[vi, vj] + 1.0f32 } } }
    for i1 in [0, 4) {
      block mean(space ui in [0, 4) = i1) reads t[ui, 0], t[ui, 5] writes mean[ui] {
        mean[ui] = t[ui, 0] + t[ui, 5] } }
    for i2 in [0, 4) { for j2 in [0, 6) {
      block use(space wi in [0, 4) = i2, space wj in [0, 6) = j2) reads t[wi, wj], mean[wi] writes out[wi, wj] {
        out[wi, wj] = t[wi, wj] - mean[wi] } } } } })"));
  blockize(s, s.loop("use", 1));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"use_tile"}, s.loop("t", 0)); }, "reverse_compute_at", 5,
      "reverse_compute_at_refused_5_tile");
}

/// `use` reads t one further, or there too.
Func stencil(bool both) {
  return parse_func(fmt::format(R"(func stencil(x: f32[9], out: f32[8]) stage begin {{
  block root() reads x[..] writes out[..] {{
    alloc t: f32[9]
    for i in [0, 9) {{
      block t(space vi in [0, 9) = i) reads x[vi] writes t[vi] {{
        t[vi] = x[vi] + 1.0f32
      }}
    }}
    for i2 in [0, 8) {{
      block use(space wi in [0, 8) = i2) reads {}t[wi + 1] writes out[wi] {{
        out[wi] = {}t[wi + 1]
      }}
    }}
  }}
}}
)",
                                both ? "t[wi], " : "", both ? "t[wi] + " : ""));
}

TEST(ReverseComputeAt, FollowsAShiftedRead) {
  const Func before = stencil(false);
  Schedule s(before);
  reverse_compute_at(s, {"use"}, split(s, s.loop("t", 0), 4).first);
  expect_scheduled(s, before, "reverse_compute_at_shift");
}

TEST(ReverseComputeAt, RefusesAStencilThatNeedsTwoTiles) {
  Schedule s(stencil(true));
  const LoopRef outer = split(s, s.loop("t", 0), 3).first;
  expect_refused(
      s, [&] { reverse_compute_at(s, {"use"}, outer); }, "reverse_compute_at", 3,
      "reverse_compute_at_refused_3_stencil");
}

TEST(ReverseComputeAt, RefusesATileThatReadsOtherIterations) {
  Schedule s(parse_func(R"(func turn(x: f32[5, 3], out: f32[3, 5]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[5, 3]
    for i in [0, 5) { for j in [0, 3) {
      block t(space vi in [0, 5) = i, space vj in [0, 3) = j) reads x[vi, vj] writes t[vi, vj] {
        t[vi, vj] = x[vi, vj] + 1.0f32 } } }
    for i2 in [0, 3) { for j2 in [0, 5) {
      block use(space wi in [0, 3) = i2, space wj in [0, 5) = j2) reads t[wj, wi] writes out[wi, wj] {
        out[wi, wj] = t[wj, wi] } } } } }
)"));
  blockize(s, s.loop("use", 1));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"use_tile"}, s.loop("t", 0)); }, "reverse_compute_at", 3,
      "reverse_compute_at_refused_3_tile");
}

TEST(ReverseComputeAt, RefusesToLeaveInstancesOutOfALayoutWithGaps) {
  Schedule s(parse_func(R"(func spread(x: f32[4, 3], t: f32[4, 3], out: f32[60]) stage begin {
  block root() reads x[..], t[..] writes t[..], out[..] {
    for i in [0, 2) { for j in [0, 3) {
      block t(space vi in [0, 4) = i, space vj in [0, 3) = j) reads x[vi, vj] writes t[vi, vj] {
        t[vi, vj] = x[vi, vj] + 1.0f32 } } }
    for i2 in [0, 4) { for j2 in [0, 3) {
      block use(space wi in [0, 4) = i2, space wj in [0, 3) = j2) reads t[wi, wj] writes out[wi * 15 + wj * 2] {
        out[wi * 15 + wj * 2] = t[wi, wj] } } } } }
)"));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"use"}, s.loop("t", 1)); }, "reverse_compute_at", 6,
      "reverse_compute_at_refused_6_gaps");
}

TEST(ReverseComputeAt, RefusesToLeaveInstancesOut) {
  Schedule s(parse_func(R"(func part(x: f32[9], t: f32[9], out: f32[9]) stage begin {
  for i in [0, 6) {
    block t(space vi in [0, 9) = i) reads x[vi] writes t[vi] {
      t[vi] = x[vi] + 1.0f32
    }
  }
  for i2 in [0, 9) {
    block use(space wi in [0, 9) = i2) reads t[wi] writes out[wi] {
      out[wi] = t[wi]
    }
  }
}
)"));
  expect_refused(
      s, [&] { reverse_compute_at(s, {"use"}, s.loop("t", 0)); }, "reverse_compute_at", 6,
      "reverse_compute_at_refused_6");
}

}  // namespace
}  // namespace lathe::testing
