#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(ComputeInline, BindsAnElementThatIsUsedTwiceOnce) {
  const Func before = program("chain");
  Schedule s(before);
  compute_inline(s, {"scale"});
  expect_scheduled(s, before, "inline_let");
  compute_inline(s, {"shift"});
  expect_scheduled(s, before, "inline_chain");
}

TEST(ComputeInline, PushesTheMaskOfAReadIntoTheLoads) {
  const Func before = program("pad");
  Schedule s(before);
  compute_inline(s, {"twice"});
  expect_scheduled(s, before, "inline_masked");
}

TEST(ComputeInline, GoesIntoTheTermOfAReduction) {
  const Func before = parse_func(R"(func sum(x: f32[4, 6], out: f32[4]) stage begin {
  block root() reads x[..], out[..] writes out[..] {
    alloc y: f32[4, 6]
    for i in [0, 4) {
      for j in [0, 6) {
        block y(space vi in [0, 4) = i, space vj in [0, 6) = j) reads x[vi, vj] writes y[vi, vj] {
          y[vi, vj] = x[vi, vj] + 1.0f32
        }
      }
    }
    for i1 in [0, 4) {
      for k in [0, 6) {
        block sum(space wi in [0, 4) = i1, reduce wk in [0, 6) = k) reads out[wi], y[wi, wk] writes out[wi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            out[wi] = 0.0f32
          }
          let l: f32 = out[wi]
          let r: f32 = y[wi, wk] * y[wi, wk]
          out[wi] = l + r
        }
      }
    }
  }
}
)");
  Schedule s(before);
  compute_inline(s, {"y"});
  expect_scheduled(s, before, "inline_reduction");
}

TEST(ComputeInline, StaysLinearOnALongChainOfSquares) {
  std::string text =
      "func squares(x: f32[2], out: f32[2]) stage begin {\n  block root() reads x[..] writes out[..] {\n";
  constexpr int length = 40;
  for (int i = 0; i < length; ++i) text += "    alloc t" + std::to_string(i) + ": f32[2]\n";
  for (int i = 0; i <= length; ++i) {
    const std::string n = std::to_string(i), from = i ? "t" + std::to_string(i - 1) : "x",
                      to = i == length ? "out" : "t" + n;
    text += "    for i" + n + " in [0, 2) {\n      block b" + n + "(space v" + n + " in [0, 2) = i" + n + ") reads " +
            from + "[v" + n + "] writes " + to + "[v" + n + "] {\n        " + to + "[v" + n + "] = " + from + "[v" + n +
            "] * " + from + "[v" + n + "] - 1.0f32\n      }\n    }\n";
  }
  const Func before = parse_func(text + "  }\n}\n");
  Schedule s(before);
  for (int i = 0; i < length; ++i) compute_inline(s, {"b" + std::to_string(i)});
  expect_scheduled(s, before, "inline_squares");
}

TEST(ComputeInline, RefusesAReduction) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { compute_inline(s, {"product"}); }, "compute_inline", 1, "inline_refused_reduction");
}

TEST(ComputeInline, RefusesABlockWithAnAssert) {
  Schedule s(program("gather"));
  expect_refused(s, [&] { compute_inline(s, {"take"}); }, "compute_inline", 1, "inline_refused_assert");
}

TEST(ComputeInline, RefusesAnOutput) {
  Schedule s(program("chain"));
  expect_refused(s, [&] { compute_inline(s, {"store"}); }, "compute_inline", 2, "inline_refused_2");
}

TEST(ComputeInline, RefusesAReaderThatTakesAnAddress) {
  Schedule s(parse_func(R"(func address(out: f32[4]) stage begin {
  block root() writes out[..] {
    alloc t: f32[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) writes t[v] {
        t[v] = 1.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) reads t[..] writes out[w] {
        out[w] = extern<f32> "first"(&t[w])
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 3, "inline_refused_3");
}

TEST(ComputeInline, RefusesAReadAtElementsOfTheBufferItself) {
  Schedule s(parse_func(R"(func twice(x: i64[4], out: i64[4]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: i64[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) reads x[v] writes t[v] {
        t[v] = x[v] % 4
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) reads t[..] writes out[w] {
        out[w] = t[t[w]]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 4, "inline_refused_4");
}

TEST(ComputeInline, RefusesWhenItsInputIsOverwrittenBehindIt) {
  Schedule s(parse_func(R"(func overwritten(x: f32[4], out: f32[4]) stage begin {
  block root() reads x[..] writes x[..], out[..] {
    alloc t: f32[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) reads x[v] writes t[v] {
        t[v] = x[v]
      }
    }
    for k in [0, 4) {
      block clear(space u in [0, 4) = k) writes x[u] {
        x[u] = 0.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) reads t[w] writes out[w] {
        out[w] = t[w]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 5, "inline_refused_5");
  expect_refused(s, [&] { compute_at(s, {"t"}, s.loop("b", 0)); }, "compute_at", 5, "compute_at_refused_5");
}

TEST(ComputeInline, RefusesABlockThatNothingReads) {
  Schedule s(parse_func(R"(func unread(out: f32[4]) stage begin {
  block root() writes out[..] {
    alloc t: f32[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) writes t[v] {
        t[v] = 1.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) writes out[w] {
        out[w] = 2.0f32
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 6, "inline_refused_6");
}

TEST(ComputeAt, ComputesARowUnderItsReader) {
  const Func before = program("rows");
  Schedule s(before);
  compute_at(s, {"shift"}, s.loop("store", 0));
  compute_at(s, {"total"}, s.loop("store", 0));
  parallel(s, s.loop("store", 0));
  expect_scheduled(s, before, "compute_at_row");
}

TEST(ComputeAt, CutsATileOffWhereItReachesOverTheEdge) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [io, ii] = split(s, s.loop("bias", 0), 3);
  const auto [jo, ji] = split(s, s.loop("bias", 2), 8);
  reorder(s, {io, jo, ii, ji});
  compute_at(s, {"product"}, jo);
  expect_scheduled(s, before, "compute_at_tile");
}

TEST(ComputeAt, RefusesABlockWhoseLoopsAreSplit) {
  Schedule s(program("rows"));
  split(s, s.loop("shift", 1), 4);
  expect_refused(s, [&] { compute_at(s, {"shift"}, s.loop("store", 0)); }, "compute_at", 1, "compute_at_refused_1");
}

TEST(ComputeAt, RefusesAnOutput) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { compute_at(s, {"store"}, s.loop("shift", 0)); }, "compute_at", 2, "compute_at_refused_2");
}

TEST(ComputeAt, RefusesWhenAReaderLiesOutside) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { compute_at(s, {"shift"}, s.loop("total", 0)); }, "compute_at", 3, "compute_at_refused_3");
}

TEST(ComputeAt, RefusesALoopAroundTheBlock) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { compute_at(s, {"shift"}, s.loop("shift", 0)); }, "compute_at", 4, "compute_at_refused_4");
}

TEST(CacheWrite, WritesThroughAnotherSpace) {
  const Func before = program("chain");
  Schedule s(before);
  EXPECT_EQ(cache_write(s, {"store"}, space::registers).name, "store_copy");
  expect_scheduled(s, before, "cache_write");
}

TEST(CacheWrite, MakesARegisterTileOfAReduction) {
  const Func before = program("matmul");
  Schedule s(before);
  const BlockRef copy = cache_write(s, {"product"}, space::registers);
  const auto [io, ii] = split(s, s.loop(copy.name, 0), 2);
  const auto [jo, ji] = split(s, s.loop(copy.name, 2), 8);
  reorder(s, {jo, io, ii, ji});
  compute_at(s, {"product"}, io);
  reorder(s, {s.loop("product", 4), s.loop("product", 2), s.loop("product", 3)});
  decompose_reduction(s, {"product"}, s.loop("product", 2));
  unroll(s, s.loop("product", 3));
  vectorize(s, s.loop("product", 4));
  expect_scheduled(s, before, "register_tile");
}

TEST(CacheWrite, RefusesABlockWhoseLoopsAreSplit) {
  Schedule s(program("chain"));
  split(s, s.loop("store", 1), 4);
  expect_refused(s, [&] { cache_write(s, {"store"}, space::registers); }, "cache_write", 1, "cache_write_refused_1");
}

TEST(CacheWrite, RefusesASecondWriter) {
  Schedule two(parse_func(R"(func two(out: f32[4]) stage begin {
  block root() writes out[..] {
    for i in [0, 4) {
      block a(space v in [0, 4) = i) writes out[v] {
        out[v] = 1.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) writes out[w] {
        out[w] = 2.0f32
      }
    }
  }
}
)"));
  expect_refused(two, [&] { cache_write(two, {"b"}, space::registers); }, "cache_write", 2, "cache_write_refused_2");
}

TEST(CacheRead, PacksAPanelUnderALoop) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [jo, ji] = split(s, s.loop("bias", 1), 8);
  reorder(s, {jo, s.loop("bias", 0)});
  compute_at(s, {"product"}, s.loop("bias", 1));
  const BlockRef copy = cache_read(s, {"product"}, "b", space::global);
  EXPECT_EQ(copy.name, "b_copy");
  compute_at(s, copy, jo);
  expect_scheduled(s, before, "cache_read");
}

TEST(CacheRead, RefusesABufferThatIsNotRead) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { cache_read(s, {"product"}, "c", space::global); }, "cache_read", 1, "cache_read_refused_1");
}

TEST(CacheRead, RefusesABufferThatItsNestWrites) {
  Schedule s(program("rows"));
  compute_at(s, {"shift"}, s.loop("store", 0));
  expect_refused(
      s, [&] { cache_read(s, {"store"}, "shifted", space::global); }, "cache_read", 2, "cache_read_refused_2");
}

TEST(SetSpace, MovesAnAllocation) {
  const Func before = program("rows");
  Schedule s(before);
  set_space(s, {"total"}, space::worker);
  expect_scheduled(s, before, "set_space");
}

TEST(SetSpace, RefusesAnOutput) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { set_space(s, {"store"}, space::registers); }, "set_space", 1, "set_space_refused_1");
}

TEST(DecomposeReduction, PutsTheInitBeforeALoopWithTheLoopsThatItNeeds) {
  const Func before = program("matmul");
  Schedule s(before);
  split(s, s.loop("product", 0), 2);
  reorder(s, {s.loop("product", 0), s.loop("product", 3), s.loop("product", 1), s.loop("product", 2)});
  EXPECT_EQ(decompose_reduction(s, {"product"}, s.loop("product", 1)).name, "product_init");
  expect_scheduled(s, before, "decompose");
}

TEST(DecomposeReduction, RefusesABlockWithoutAnInit) {
  Schedule s(program("matmul"));
  expect_refused(
      s, [&] { decompose_reduction(s, {"bias"}, s.loop("bias", 0)); }, "decompose_reduction", 1, "decompose_refused_1");
}

TEST(DecomposeReduction, RefusesALoopBelowAReduceLoop) {
  Schedule s(program("matmul"));
  reorder(s, {s.loop("product", 2), s.loop("product", 0)});
  expect_refused(
      s, [&] { decompose_reduction(s, {"product"}, s.loop("product", 1)); }, "decompose_reduction", 2,
      "decompose_refused_2");
}

TEST(DecomposeReduction, RefusesAConditionOnSpaceAndReduceLoopsAtOnce) {
  Schedule s(parse_func(R"(func triangle(x: f32[4, 4], out: f32[4]) stage begin {
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
)"));
  expect_refused(
      s, [&] { decompose_reduction(s, {"sum"}, s.loop("sum", 0)); }, "decompose_reduction", 3, "decompose_refused_3");
}

TEST(Rfactor, MakesPartialResultsAndFoldsTheirLanes) {
  const Func before = program("rows");
  Schedule s(before);
  const auto [ko, ki] = split(s, s.loop("total", 1), 8);
  EXPECT_EQ(rfactor(s, {"total"}, ki).name, "total_rf");
  expect_scheduled(s, before, "rfactor");
  vectorize(s, s.loops({"total_rf"}).back());
  fold_lanes(s, {"total"}, 4);
  expect_scheduled(s, before, "fold_lanes");
}

TEST(Rfactor, KeepsSpaceLoopsInsideTheReduceLoops) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [ko, ki] = split(s, s.loop("product", 2), 4);
  reorder(s, {ko, s.loop("product", 0), s.loop("product", 1), ki});
  rfactor(s, {"product"}, ki);
  expect_scheduled(s, before, "rfactor_inner_space");
}

TEST(Rfactor, TakesTupleReducers) {
  const Func before = parse_func(R"(func argmax(x: f32[3, 8], best: f32[3], place: i64[3]) stage begin {
  for i in [0, 3) {
    for k in [0, 8) {
      block argmax(space vi in [0, 3) = i, reduce vk in [0, 8) = k)
          reads best[vi], place[vi], x[vi, vk]
          writes best[vi], place[vi]
      {
        reducer (a: f32, m: i64) (b: f32, n: i64) {select(b > a || b == a && n < m, b, a), select(b > a || b == a && n < m, n, m)} identity {-inf(f32), 9}
        init {
          best[vi] = -inf(f32)
          place[vi] = 9
        }
        let l0: f32 = best[vi]
        let l1 = place[vi]
        let r0: f32 = x[vi, vk]
        let r1 = vk
        best[vi] = select(r0 > l0 || r0 == l0 && r1 < l1, r0, l0)
        place[vi] = select(r0 > l0 || r0 == l0 && r1 < l1, r1, l1)
      }
    }
  }
}
)");
  Schedule s(before);
  const auto [ko, ki] = split(s, s.loop("argmax", 1), 3);
  rfactor(s, {"argmax"}, ki);
  expect_scheduled(s, before, "rfactor_tuple");
}

TEST(Rfactor, RefusesABlockThatIsNoReduction) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { rfactor(s, {"shift"}, s.loop("shift", 1)); }, "rfactor", 1, "rfactor_refused_1");
}

TEST(Rfactor, RefusesASpaceLoop) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { rfactor(s, {"total"}, s.loop("total", 0)); }, "rfactor", 2, "rfactor_refused_2");
}

TEST(Rfactor, RefusesALoopThatDrivesSpaceAndReduceIters) {
  Schedule mixed(parse_func(R"(func mixed(x: f32[12], out: f32[3]) stage begin {
  for f in [0, 12) {
    block sum(space vi in [0, 3) = f // 4, reduce vk in [0, 4) = f % 4) reads out[vi], x[vi * 4 + vk] writes out[vi] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init {
        out[vi] = 0.0f32
      }
      let l: f32 = out[vi]
      let r: f32 = x[vi * 4 + vk]
      out[vi] = l + r
    }
  }
}
)"));
  expect_refused(mixed, [&] { rfactor(mixed, {"sum"}, mixed.loop("sum", 0)); }, "rfactor", 3, "rfactor_refused_3");
}

TEST(Rfactor, RefusesAnotherBlockBelowTheReduceLoop) {
  Schedule s(parse_func(R"(func beside(x: f32[4], out: f32[1], more: f32[4]) stage begin {
  for k in [0, 4) {
    block sum(reduce vk in [0, 4) = k) reads out[0], x[vk] writes out[0] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init {
        out[0] = 0.0f32
      }
      let l: f32 = out[0]
      let r: f32 = x[vk]
      out[0] = l + r
    }
    block more(space v in [0, 4) = k) writes more[v] {
      more[v] = 1.0f32
    }
  }
}
)"));
  expect_refused(s, [&] { rfactor(s, {"sum"}, s.loop("sum", 0)); }, "rfactor", 4, "rfactor_refused_4");
}

/// Eight columns of dot products over eight lanes, in tiles of `tile` columns, with partial results made.
Func dot_columns(int columns) {
  const std::string n = std::to_string(columns);
  return parse_func("func dots(x: f32[8], w: f32[" + n + ", 8], out: f32[" + n + R"(]) stage begin {
  for j in [0, )" + n +
                    R"() {
    for k in [0, 8) {
      block dot(space vj in [0, )" +
                    n + R"() = j, reduce vk in [0, 8) = k) reads out[vj], x[vk], w[vj, vk] writes out[vj] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init {
          out[vj] = 0.0f32
        }
        let l: f32 = out[vj]
        let r: f32 = x[vk] * w[vj, vk]
        out[vj] = l + r
      }
    }
  }
}
)");
}

Schedule dots_in_tiles(const Func& func, std::int64_t tile) {
  Schedule s(func);
  const auto [jo, ji] = split(s, s.loop("dot", 0), tile);
  const auto [ko, ki] = split(s, s.loop("dot", 2), 8);
  reorder(s, {jo, ko, ji, ki});
  rfactor(s, {"dot"}, ki);
  return s;
}

TEST(FoldColumns, FoldsNeighboursTogether) {
  const Func before = dot_columns(12);
  Schedule s = dots_in_tiles(before, 4);
  const std::vector<LoopRef> loops = s.loops({"dot"});
  fold_columns(s, {"dot"}, loops[loops.size() - 2], 8);
  expect_scheduled(s, before, "fold_columns");
}

TEST(FoldColumns, KeepsAPredicateOnWholeGroups) {
  const Func before = dot_columns(12);
  Schedule s(before);
  const auto [jo, ji] = split(s, s.loop("dot", 0), 8);
  const auto [jg, jj] = split(s, ji, 2);
  const auto [ko, ki] = split(s, s.loop("dot", 3), 4);
  reorder(s, {jo, jg, ko, jj, ki});
  rfactor(s, {"dot"}, ki);
  fold_columns(s, {"dot"}, s.loops({"dot"})[2], 4);
  expect_scheduled(s, before, "fold_columns_predicate");
}

TEST(FoldColumns, RefusesAnExtentThatIsNoPowerOfTwo) {
  Schedule s = dots_in_tiles(dot_columns(12), 3);
  expect_refused(
      s, [&] { fold_columns(s, {"dot"}, s.loops({"dot"})[1], 8); }, "fold_columns", 5, "fold_columns_refused_5");
}

TEST(FoldColumns, RefusesADimensionOfBrokenGroups) {
  Schedule s = dots_in_tiles(dot_columns(10), 4);
  expect_refused(
      s, [&] { fold_columns(s, {"dot"}, s.loops({"dot"})[1], 8); }, "fold_columns", 6, "fold_columns_refused_6");
}

TEST(FoldLanes, RefusesAnotherReducer) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { fold_lanes(s, {"shift"}, 2); }, "fold_lanes", 1, "fold_lanes_refused_1");
}

TEST(FoldLanes, RefusesAReduceIterThatIsSplit) {
  Schedule s(program("rows"));
  split(s, s.loop("total", 1), 5);
  expect_refused(s, [&] { fold_lanes(s, {"total"}, 2); }, "fold_lanes", 2, "fold_lanes_refused_2");
}

TEST(FoldLanes, RefusesACountThatIsNoPowerOfTwo) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { fold_lanes(s, {"total"}, 2); }, "fold_lanes", 3, "fold_lanes_refused_3");
}

TEST(FoldLanes, RefusesATermThatIsNotALoadAlongMemory) {
  Schedule s(parse_func(R"(func down(x: f32[8, 3], out: f32[3]) stage begin {
  for i in [0, 3) {
    for k in [0, 8) {
      block sum(space vi in [0, 3) = i, reduce vk in [0, 8) = k) reads out[vi], x[vk, vi] writes out[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init {
          out[vi] = 0.0f32
        }
        let l: f32 = out[vi]
        let r: f32 = x[vk, vi]
        out[vi] = l + r
      }
    }
  }
}
)"));
  expect_refused(s, [&] { fold_lanes(s, {"sum"}, 4); }, "fold_lanes", 4, "fold_lanes_refused_4");
}

}  // namespace
}  // namespace lathe::testing
