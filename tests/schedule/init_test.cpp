/// What holds where inits run, and where loops write again what others have read.
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(DecomposeReduction, TakesAConditionOnSpaceAndReduceLoopsAtOnce) {
  const Func before = parse_func(R"(func triangle(x: f32[4, 4], out: f32[4]) stage begin {
  for i in [0, 4) {
    for k in [0, 4) {
      block sum(space vi in [0, 4) = i, reduce vk in [0, 4) = k) where k <= i reads out[vi], x[vi, vk] writes out[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init {
          out[vi] = 0.0f32
        }
        let l: f32 = out[vi]
        let r: f32 = x[vi, vk]
        out[vi] = l + r
      }
    }
  }
}
)");
  Schedule s(before);
  decompose_reduction(s, {"sum"}, s.loop("sum", 0));
  expect_scheduled(s, before, "decompose_triangle");
}

/// Rows in two halves of ten, by threes: what reads a half needs none of the other's.
Func halves() {
  return parse_func(R"(func halves(x: f32[20, 4], out: f32[20]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[20]
    for i in [0, 20) { for k in [0, 4) {
      block sum(space vi in [0, 20) = i, reduce vk in [0, 4) = k) reads x[vi, vk], t[vi] writes t[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { t[vi] = 0.0f32 }
        let l: f32 = t[vi]
        let r: f32 = x[vi, vk]
        t[vi] = l + r } } }
    for j in [0, 20) { block copy(space vj in [0, 20) = j) reads t[vj] writes out[vj] { out[vj] = t[vj] } } } })");
}

TEST(DecomposeReduction, KeepsToWhatTheReaderNeeds) {
  const Func before = halves();
  Schedule s(before);
  const auto [half, rows] = split(s, s.loop("copy", 0), 10);
  const LoopRef tile = split(s, rows, 3).first;
  compute_at(s, {"sum"}, tile);
  decompose_reduction(s, {"sum"}, s.loops({"sum"})[2]);
  // All three end where a half does, not only where the rows do.
  for (const BlockRef& block : s.blocks()) {
    EXPECT_FALSE(uses_var(s.node(block).f.predicate, half.variable.get())) << print(s.func());
  }
  expect_scheduled(s, before, "decompose_halves");
}

TEST(DecomposeReduction, RefusesALoopThatDrivesSpaceAndReduceIters) {
  Schedule s(program("matmul"));
  const LoopRef fused = fuse(s, s.loop("product", 1), s.loop("product", 2));
  expect_refused(
      s, [&] { decompose_reduction(s, {"product"}, fused); }, "decompose_reduction", 3, "decompose_refused_3");
  expect_same(program("matmul"), s.func());
  expect_refused(s, [&] { reorder(s, {fused, s.loop("product", 0)}); }, "reorder", 7, "reorder_refused_7");
}

TEST(DecomposeReduction, RefusesInstancesThatComeAgain) {
  Schedule s(parse_func(R"(func again(x: f32[4, 3], out: f32[4]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[4]
    for j in [0, 2) {
      for i in [0, 4) {
        for k in [0, 3) {
          block sum(space vi in [0, 4) = i, reduce vk in [0, 3) = k) reads t[vi], x[vi, vk] writes t[vi] {
            reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
            init {
              t[vi] = 0.0f32
            }
            let l: f32 = t[vi]
            let r: f32 = x[vi, vk]
            t[vi] = l + r
          }
        }
      }
    }
    for i1 in [0, 4) {
      block store(space wi in [0, 4) = i1) reads t[wi] writes out[wi] {
        out[wi] = t[wi]
      }
    }
  }
}
)"));
  expect_refused(
      s, [&] { decompose_reduction(s, {"sum"}, s.loop("sum", 0)); }, "decompose_reduction", 4, "decompose_refused_4");
}

TEST(Fuse, RefusesAReduceLoopThatMayNotRun) {
  Schedule s(parse_func(R"(func empty(x: f32[4, n], n: i64, out: f32[4]) stage begin facts {n in [0, 9]} {
  for i in [0, 4) {
    for k in [0, n) {
      block sum(space vi in [0, 4) = i, reduce vk in [0, n) = k) reads out[vi], x[vi, vk] writes out[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init {
          out[vi] = 0.0f32
        }
        let l: f32 = out[vi]
        let r: f32 = x[vi, vk]
        out[vi] = l + r
      }
    }
  }
}
)"));
  expect_refused(s, [&] { fuse(s, s.loop("sum", 0), s.loop("sum", 1)); }, "fuse", 4, "fuse_refused_4");
}

TEST(DecomposeReduction, InitializesPointsWithoutAnInstance) {
  const Func before = program("matmul");
  Schedule s(before);
  split(s, s.loop("product", 2), 8);
  rfactor(s, {"product"}, s.loop("product", 3));
  rfactor(s, {"product_rf"}, s.loop("product_rf", 2));
  decompose_reduction(s, {"product_rf_rf"}, s.loop("product_rf_rf", 0));
  expect_same(before, s.func());
}

TEST(Split, RefusesIterationsThatWouldRunAnInitAgain) {
  Schedule s(program("matmul"));
  split(s, s.loop("product", 0), 2);
  expect_refused(s, [&] { split(s, s.loop("product", 1), 5); }, "split", 4, "split_refused_4");
}

TEST(Split, RefusesIterationsThatWouldRunAWholeReductionAgain) {
  Schedule s(parse_func(R"(func beside(x: f32[4], flag: f32[1], out: f32[1]) stage begin {
  for i in [0, 1) {
    block flag(space vi in [0, 1) = i) writes flag[vi] {
      flag[vi] = 1.0f32
    }
    for k in [0, 4) {
      block sum(space vo in [0, 1) = 0, reduce vk in [0, 4) = k) reads out[vo], x[vk] writes out[vo] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vo] = 0.0f32 }
        let l: f32 = out[vo]
        let r: f32 = x[vk]
        out[vo] = l + r
      }
    }
  }
}
)"));
  expect_refused(s, [&] { split(s, s.loop("flag", 0), 8); }, "split", 4, "split_refused_4_whole");
}

TEST(CacheRead, RefusesAnAllocationWithGaps) {
  Schedule s(program("chain"));
  transform_layout(s, {"scale"}, "scaled", parse_layout_map("i, j -> i, j * 2"));
  expect_refused(s, [&] { cache_read(s, {"shift"}, "scaled", "global"); }, "cache_read", 3, "cache_read_refused_3");
}

TEST(ComputeInline, RefusesAnOperandThatALaterIterationOverwrites) {
  Schedule s(parse_func(R"(func ring(x: f32[8], out: f32[8]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[2]
    alloc u: f32[8]
    for i in [0, 8) {
      block t(ordered vi in [0, 8) = i) reads x[vi] writes t[vi % 2] {
        t[vi % 2] = x[vi]
      }
      block u(space wi in [0, 8) = i) reads t[wi % 2] writes u[wi] {
        u[wi] = t[wi % 2] * 2.0f32
      }
    }
    for i1 in [0, 8) {
      block store(space zi in [0, 8) = i1) reads u[zi] writes out[zi] {
        out[zi] = u[zi]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"u"}); }, "compute_inline", 5, "compute_inline_refused_5_later");
}

}  // namespace
}  // namespace lathe::testing
