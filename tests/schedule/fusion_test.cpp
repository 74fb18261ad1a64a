#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/fuse_reduction_epilogue.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A row sum with `epilogue` behind it, over out[wi].
Func row_sum(const std::string& epilogue, const std::string& reads = "total[wi], y[wi]",
             const std::string& between = "") {
  return parse_func(R"(func row_sum(x: f32[4, 10], y: f32[4], out: f32[4]) stage begin {
  block root() reads x[..], y[..], out[..] writes y[..], out[..] {
    alloc total: f32[4]
    for i in [0, 4) {
      for k in [0, 10) {
        block total(space vi in [0, 4) = i, reduce vk in [0, 10) = k) reads total[vi], x[vi, vk] writes total[vi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            total[vi] = 0.0f32
          }
          let l: f32 = total[vi]
          let r: f32 = x[vi, vk]
          total[vi] = l + r
        }
      }
    }
    )" + between + R"(
    for i1 in [0, 4) {
      block add(space wi in [0, 4) = i1) reads )" +
                    reads + R"( writes out[wi] {
        )" + epilogue +
                    R"(
      }
    }
  }
}
)");
}

TEST(FuseReductionEpilogue, StartsFromTheBias) {
  const Func before = row_sum("let t: f32 = y[wi] * 2.0f32\nout[wi] = t + total[wi]");
  Schedule s(before);
  fuse_reduction_epilogue(s, {"total"}, {"add"});
  expect_scheduled(s, before, "fuse_epilogue");
  decompose_reduction(s, {"total"}, s.loop("total", 1));
  expect_same(before, s.func());
}

TEST(FuseReductionEpilogue, StartsOnceWhereTheReductionIsFactored) {
  const Func before = row_sum("out[wi] = total[wi] + y[wi]");
  Schedule s(before);
  split(s, s.loop("total", 1), 8);
  fuse_reduction_epilogue(s, {"total"}, {"add"});
  rfactor(s, {"total"}, s.loop("total", 2));
  expect_scheduled(s, before, "fuse_epilogue_rfactor");
  expect_refused(s, [&] { fold_lanes(s, {"total"}, 8); }, "fold_lanes", 1, "fold_lanes_refused_1_start");
}

TEST(FuseReductionEpilogue, KeepsPaddingFromAStartOfItsOwn) {
  Schedule s(row_sum("out[wi] = total[wi] + y[wi]"));
  fuse_reduction_epilogue(s, {"total"}, {"add"});
  expect_refused(s, [&] { pad_einsum(s, {"total"}, {1, 8}); }, "pad_einsum", 1, "pad_einsum_refused_1_start");
}

void expect_not_fused(const Func& func, int condition, const std::string& suffix = "") {
  Schedule s(func);
  expect_refused(
      s, [&] { fuse_reduction_epilogue(s, {"total"}, {"add"}); }, "fuse_reduction_epilogue", condition,
      "fuse_epilogue_refused_" + std::to_string(condition) + suffix);
}

TEST(FuseReductionEpilogue, RefusesWhatIsNoReduction) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { fuse_reduction_epilogue(s, {"scale"}, {"shift"}); }, "fuse_reduction_epilogue", 1,
      "fuse_epilogue_refused_1");
  Schedule started(row_sum("out[wi] = total[wi] + y[wi]"));
  decompose_reduction(started, {"total"}, started.loop("total", 1));
  expect_refused(
      started, [&] { fuse_reduction_epilogue(started, {"total"}, {"add"}); }, "fuse_reduction_epilogue", 1,
      "fuse_epilogue_refused_1_init");
}

TEST(FuseReductionEpilogue, RefusesAPartOfTheEpilogue) {
  Schedule s(row_sum("out[wi] = total[wi] + y[wi]"));
  split(s, s.loop("add", 0), 3);
  expect_refused(
      s, [&] { fuse_reduction_epilogue(s, {"total"}, {"add"}); }, "fuse_reduction_epilogue", 2,
      "fuse_epilogue_refused_2");
}

TEST(FuseReductionEpilogue, RefusesAnotherOperation) {
  expect_not_fused(row_sum("out[wi] = total[wi] * y[wi]"), 3);
  expect_not_fused(row_sum("out[wi] = total[wi] + total[wi]", "total[wi]"), 3, "_itself");
  expect_not_fused(row_sum("out[wi] = total[3 - wi] + y[wi]", "total[3 - wi], y[wi]"), 3, "_order");
}

TEST(FuseReductionEpilogue, RefusesAResultThatOthersRead) {
  expect_not_fused(row_sum("out[wi] = total[wi] + y[wi]", "total[wi], y[wi]", R"(for i2 in [0, 4) {
      block other(space ui in [0, 4) = i2) reads total[ui] writes y[ui] {
        y[ui] = total[ui]
      }
    })"),
                   4);
}

TEST(FuseReductionEpilogue, RefusesAnOperandThatComesLater) {
  expect_not_fused(row_sum("out[wi] = total[wi] + y[wi]", "total[wi], y[wi]", R"(for i2 in [0, 4) {
      block other(space ui in [0, 4) = i2) writes y[ui] {
        y[ui] = 1.0f32
      }
    })"),
                   5);
}

TEST(Blockize, MakesTilesOfAReductionsLoops) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [io, ii] = split(s, s.loop("product", 0), 2);
  const auto [jo, ji] = split(s, s.loop("product", 2), 5);
  const auto [ko, ki] = split(s, s.loop("product", 4), 4);
  reorder(s, {io, jo, ko, ii, ji, ki});
  decompose_reduction(s, {"product"}, ko);
  const BlockRef tile = blockize(s, ii);
  EXPECT_EQ(tile.name, "product_tile");
  parallel(s, io, 1);
  expect_scheduled(s, before, "blockize");
}

TEST(Blockize, KeepsAnInitWhoseReductionLiesInside) {
  const Func before = program("rows");
  Schedule s(before);
  const auto [io, ii] = split(s, s.loop("total", 0), 3);
  blockize(s, ii);
  expect_scheduled(s, before, "blockize_init");
}

TEST(Blockize, RunsTilesThatMeetInOrder) {
  const Func before = parse_func(R"(func windows(x: f32[10], out: f32[8]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[10]
    for i in [0, 10) {
      block t(space vi in [0, 10) = i) reads x[vi] writes t[vi] {
        t[vi] = x[vi] * 2.0f32
      }
    }
    for y in [0, 8) {
      block use(space vy in [0, 8) = y) reads t[vy], t[vy + 2] writes out[vy] {
        out[vy] = t[vy] + t[vy + 2]
      }
    }
  }
}
)");
  Schedule s(before);
  const LoopRef y = s.loop("use", 0);
  compute_at(s, {"t"}, y);
  const BlockRef tile = blockize(s, s.loop("t", 1));
  EXPECT_EQ(s.node(tile).f.iters[0].kind, IterKind::ordered);
  expect_scheduled(s, before, "blockize_ordered");
}

TEST(Blockize, TellsPartsApartWhoseLastTilesReachBeyondThem) {
  const Func before = parse_func(R"(func twice(x: f32[10, 4], out: f32[10, 4]) stage begin {
  for i in [0, 10) { for j in [0, 4) {
    block twice(space vi in [0, 10) = i, space vj in [0, 4) = j) reads x[vi, vj] writes out[vi, vj] {
      out[vi, vj] = x[vi, vj] + x[vi, vj] } } } })");
  Schedule s(before);
  const auto [part, rest] = split(s, s.loop("twice", 0), 5);
  const auto [row, inner] = split(s, rest, 3);
  const BlockRef tile = blockize(s, s.loop("twice", 3));
  EXPECT_EQ(s.node(tile).f.iters[0].kind, IterKind::space);
  EXPECT_TRUE(s.node(tile).f.predicate);
  parallel(s, part, 1);
  expect_same_results(before, s.func());
}

TEST(Blockize, CountsHowFarLoopsReachFromWhereTheyBegin) {
  // Under the predicate i takes eight values, not three: parts meet.
  const Func before = parse_func(R"(func twice(x: f32[11], out: f32[11]) stage begin {
  for p in [0, 2) { for i in [-5, 10) {
    block twice(space vi in [0, 11) = p * 3 + i + 5) where i < 3 reads x[vi] writes out[vi] {
      out[vi] = x[vi] + x[vi] } } } })");
  Schedule s(before);
  EXPECT_EQ(s.node(blockize(s, s.loop("twice", 1))).f.iters[0].kind, IterKind::ordered);
}

TEST(Blockize, LeavesAPredicateBesideAnInitThatRunsWithoutIt) {
  const Func before = parse_func(R"(func sums(x: f32[5, 4], out: f32[5]) stage begin {
  for i in [0, 5) { for k in [0, 4) {
    block sum(space vi in [0, 5) = i, reduce vk in [0, 4) = k) where i < 3 reads out[vi], x[vi, vk] writes out[vi] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi] = 0.0f32 }
      let l: f32 = out[vi]
      let r: f32 = x[vi, vk]
      out[vi] = l + r } } } })");
  Schedule s(before);
  const BlockRef tile = blockize(s, s.loop("sum", 1));
  EXPECT_FALSE(s.node(tile).f.predicate);
  expect_same_results(before, s.func());
}

TEST(Blockize, CoversWhatIsMaskedOnOneSideOfACut) {
  const Func before = parse_func(R"(func smooth(x: f32[3, 4], w: f32[4], out: f32[3, 4]) stage begin {
  for i in [0, 3) { for j in [0, 4) { for k in [0, 4) {
    block sum(space vi in [0, 3) = i, space vj in [0, 4) = j, reduce vk in [0, 4) = k)
        reads out[vi, vj], x[vi, vj + vk - 1], w[vk] writes out[vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vj] = 0.0f32 }
      let l: f32 = out[vi, vj]
      let inside: bool = 1 <= vj + vk && vj + vk < 5
      let r: f32 = select(inside, x[vi, vj + vk - 1 if inside], 0.0f32) * w[vk]
      out[vi, vj] = l + r } } } } })");
  Schedule s(before);
  decompose_reduction(s, {"sum"}, s.loop("sum", 0));
  blockize(s, s.loop("sum", 1));
  partition(s, s.loop("sum", 2), 1);
  expect_scheduled(s, before, "blockize_partition");
}

TEST(Blockize, TilesInTilesShareACopy) {
  const Func before = program("matmul");
  Schedule s(before);
  blockize(s, s.loop("product", 1));
  blockize(s, s.loop("product", 1));
  cache_read(s, {"product"}, "b", "global");
  expect_scheduled(s, before, "blockize_twice");
}

TEST(Blockize, DeclaresWhatATileOfNoLoopTouchesOnceItIsLeftOut) {
  const Func before = parse_func(R"(func f(x: f32[7], out: f32[6]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[7]
    for k in [0, 7) { block twice(space vk in [0, 7) = k) reads x[vk] writes t[vk] { t[vk] = x[vk] + x[vk] } }
    for i in [0, 6) { block ends(space vi in [0, 6) = i) reads t[..] writes out[vi] { out[vi] = t[0] + t[6] } } } }
)");
  Schedule s(before);
  compute_at(s, {"twice"}, s.loop("ends", 0));
  blockize(s, s.loop("twice", 1));
  split(s, s.loop("ends", 0), 4);
  expect_same(before, s.func());
}

TEST(Blockize, RefusesALoopOverTwoBlocks) {
  Schedule s(program("chain"));
  compute_at(s, {"scale"}, s.loop("shift", 0));
  expect_refused(s, [&] { blockize(s, s.loop("shift", 0)); }, "blockize", 1, "blockize_refused_1");
}

TEST(Blockize, RefusesBoundsThatMove) {
  Schedule s(parse_func(R"(func triangle(x: f32[6, 6], out: f32[6, 6]) stage begin {
  for i in [0, 6) {
    for j in [0, i + 1) {
      for k in [0, 1) {
        block a(space vi in [0, 6) = i, space vj in [0, 6) = j + k) reads x[vi, vj] writes out[vi, vj] {
          out[vi, vj] = x[vi, vj]
        }
      }
    }
  }
}
)"));
  expect_refused(s, [&] { blockize(s, s.loop("a", 2)); }, "blockize", 2, "blockize_refused_2");
}

TEST(Blockize, RefusesAReductionThatBeginsOutside) {
  Schedule s(program("matmul"));
  split(s, s.loop("product", 2), 4);
  expect_refused(s, [&] { blockize(s, s.loop("product", 3)); }, "blockize", 3, "blockize_refused_3");
}

}  // namespace
}  // namespace lathe::testing
