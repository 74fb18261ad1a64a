#include "ir/error.h"
#include "ir/text/parse.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

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
  const Func before = parse_func(R"(func argmax(x: i32[3, 8], best: i32[3], place: i64[3]) stage begin {
  for i in [0, 3) {
    for k in [0, 8) {
      block argmax(space vi in [0, 3) = i, reduce vk in [0, 8) = k)
          reads best[vi], place[vi], x[vi, vk]
          writes best[vi], place[vi]
      {
        reducer (a: i32, m: i64) (b: i32, n: i64) {select(b > a || b == a && n < m, b, a), select(b > a || b == a && n < m, n, m)} identity {-1000i32, 9}
        init {
          best[vi] = -1000i32
          place[vi] = 9
        }
        let l0: i32 = best[vi]
        let l1 = place[vi]
        let r0: i32 = x[vi, vk]
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

TEST(Rfactor, KeepsTheOrderOfReducersThatDoNotCommute) {
  const Func before = parse_func(R"(func last(x: i32[3, 4, 8], out: i32[3]) stage begin {
  for i in [0, 3) {
    for j in [0, 4) {
      for k in [0, 8) {
        block last(space vi in [0, 3) = i, reduce vj in [0, 4) = j, reduce vk in [0, 8) = k)
            reads out[vi], x[vi, vj, vk]
            writes out[vi]
        {
          reducer (a: i32) (b: i32) {select(b != 0i32, b, a)} identity {0i32}
          init {
            out[vi] = 0i32
          }
          let l0: i32 = out[vi]
          let r0: i32 = x[vi, vj, vk]
          out[vi] = select(r0 != 0i32, r0, l0)
        }
      }
    }
  }
}
)");
  Schedule s(before);
  expect_refused(s, [&] { rfactor(s, {"last"}, s.loop("last", 2)); }, "rfactor", 5, "rfactor_refused_5");
  EXPECT_THROW(reorder(s, {s.loop("last", 2), s.loop("last", 1)}), Refusal);
  reorder(s, {s.loop("last", 1), s.loop("last", 2), s.loop("last", 0)});
  expect_same(before, s.func());
  rfactor(s, {"last"}, s.loop("last", 0));
  expect_same(before, s.func());
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

TEST(FoldColumns, FillsUpGroupsThatAreNoPowerOfTwo) {
  const Func before = dot_columns(12);
  Schedule s = dots_in_tiles(before, 3);
  fold_columns(s, {"dot"}, s.loops({"dot"})[1], 8);
  expect_scheduled(s, before, "fold_columns_filled");
}

TEST(FoldColumns, RefusesMoreColumnsThanLanes) {
  Schedule s = dots_in_tiles(dot_columns(24), 12);
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

/// A greatest number passes over NaN, which reduce_max keeps: only what holds such extremes already may be folded by
/// it.
const char* greatest_numbers = R"(func greatest(x: f32[3, 16], out: f32[3]) stage begin {
  for i in [0, 3) {
    for k in [0, 16) {
      block most(space vi in [0, 3) = i, reduce vk in [0, 16) = k) reads out[vi], x[vi, vk] writes out[vi] {
        reducer (lhs: f32) (rhs: f32) {select(lhs < rhs, rhs, lhs)} identity {-inf(f32)}
        init {
          out[vi] = -inf(f32)
        }
        let l: f32 = out[vi]
        let r: f32 = x[vi, vk]
        out[vi] = select(l < r, r, l)
      }
    }
  }
}
)";

TEST(FoldLanes, RefusesTermsWhoseNanItsReducerPassesOver) {
  Schedule s(parse_func(greatest_numbers));
  expect_refused(s, [&] { fold_lanes(s, {"most"}, 4); }, "fold_lanes", 1, "fold_lanes_refused_1_nan");
}

TEST(FoldLanes, FoldsGreatestNumbers) {
  const Func before = parse_func(greatest_numbers);
  Schedule s(before);
  const auto [ko, ki] = split(s, s.loop("most", 1), 4);
  rfactor(s, {"most"}, ki);
  fold_lanes(s, {"most"}, 4);
  expect_scheduled(s, before, "fold_lanes_of_numbers");
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
