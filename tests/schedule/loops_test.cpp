#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(Split, DividesALoopAndAddsNoPredicateWhereTheFactorDivides) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [outer, inner] = split(s, s.loop("bias", 1), 4);
  EXPECT_EQ(s.loops({"bias"}).size(), 3u);
  EXPECT_FALSE(s.node(BlockRef{"bias"}).f.predicate);
  expect_scheduled(s, before, "split_exact");
}

TEST(Split, KeepsEveryInstanceInRangeByAPredicateWhenTheFactorDoesNotDivide) {
  const Func before = program("matmul");
  Schedule s(before);
  split(s, s.loop("product", 0), 3);
  split(s, s.loop("product", 3), 5);
  const auto [outer, inner] = split(s, s.loop("bias", 1), 16);
  split(s, inner, 3);
  expect_scheduled(s, before, "split_inexact");
}

TEST(Split, TakesAFactorBeyondTheExtent) {
  const Func before = program("pad");
  Schedule s(before);
  split(s, s.loop("pad", 0), 16);
  expect_scheduled(s, before, "split_beyond");
}

TEST(Split, RefusesAFactorBelowOne) {
  Schedule s(program("pad"));
  expect_refused(s, [&] { split(s, s.loop("pad", 0), 0); }, "split", 1, "split_refused_1");
}

TEST(Split, RefusesALoopThatIsNotSerial) {
  Schedule s(program("pad"));
  unroll(s, s.loop("pad", 0));
  expect_refused(s, [&] { split(s, s.loop("pad", 0), 2); }, "split", 2, "split_refused_2");
}

TEST(Split, RefusesStatementsThatNoPredicateCanGuard) {
  Schedule s(parse_func(R"(func bare(out: f32[10]) stage begin {
  for i in [0, 10) {
    out[i] = 1.0f32
    block b(space v in [0, 10) = i) writes out[v] {
      out[v] = 2.0f32
    }
  }
}
)"));
  expect_refused(s, [&] { split(s, s.loop("b", 0), 3); }, "split", 3, "split_refused_3");
}

TEST(Fuse, MakesOneLoopOfTwo) {
  const Func before = program("chain");
  Schedule s(before);
  const LoopRef fused = fuse(s, s.loop("scale", 0), s.loop("scale", 1));
  split(s, fused, 7);
  expect_scheduled(s, before, "fuse");
}

TEST(Fuse, RefusesLoopsThatDoNotNestDirectly) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { fuse(s, s.loop("product", 0), s.loop("product", 2)); }, "fuse", 1, "fuse_refused_1");
}

TEST(Fuse, RefusesBoundsThatDependOnTheOuterLoop) {
  Schedule s(parse_func(R"(func triangle(out: f32[4, 4]) stage begin {
  for i in [0, 4) {
    for j in [0, i) {
      block b(space vi in [0, 4) = i, space vj in [0, 4) = j) writes out[vi, vj] {
        out[vi, vj] = 2.0f32
      }
    }
  }
}
)"));
  expect_refused(s, [&] { fuse(s, s.loop("b", 0), s.loop("b", 1)); }, "fuse", 2, "fuse_refused_2");
  expect_refused(s, [&] { reorder(s, {s.loop("b", 1), s.loop("b", 0)}); }, "reorder", 2, "reorder_refused_2");
}

TEST(Fuse, RefusesALoopThatIsNotSerial) {
  Schedule s(program("chain"));
  unroll(s, s.loop("scale", 1));
  expect_refused(s, [&] { fuse(s, s.loop("scale", 0), s.loop("scale", 1)); }, "fuse", 3, "fuse_refused_3");
}

TEST(Reorder, PutsNamedLoopsInOrderAndLeavesOthersInPlace) {
  const Func before = program("matmul");
  Schedule s(before);
  reorder(s, {s.loop("product", 2), s.loop("product", 0)});
  expect_scheduled(s, before, "reorder");
}

TEST(Reorder, RefusesLoopsOfDifferentNests) {
  Schedule s(program("chain"));
  expect_refused(s, [&] { reorder(s, {s.loop("scale", 1), s.loop("shift", 0)}); }, "reorder", 1, "reorder_refused_1");
}

TEST(Reorder, RefusesSeveralBlocksBelow) {
  Schedule s(parse_func(R"(func two(out: f32[4, 4]) stage begin {
  for i in [0, 4) {
    for j in [0, 4) {
      block a(space vi in [0, 4) = i, space vj in [0, 4) = j) writes out[vi, vj] {
        out[vi, vj] = 2.0f32
      }
      block b(space wi in [0, 4) = i, space wj in [0, 4) = j) writes out[wi, wj] {
        out[wi, wj] = 3.0f32
      }
    }
  }
}
)"));
  expect_refused(s, [&] { reorder(s, {s.loop("a", 1), s.loop("a", 0)}); }, "reorder", 3, "reorder_refused_3");
}

TEST(Reorder, RefusesToSwapOrderedIters) {
  Schedule s(program("scan"));
  const auto [outer, inner] = split(s, s.loop("scan", 1), 4);
  expect_refused(s, [&] { reorder(s, {inner, outer}); }, "reorder", 4, "reorder_refused_4");
}

TEST(Reorder, RefusesToMoveAVectorizedLoop) {
  Schedule s(program("matmul"));
  const LoopRef vector = split(s, s.loop("bias", 1), 4).second;
  vectorize(s, vector);
  expect_refused(s, [&] { reorder(s, {vector, s.loop("bias", 0)}); }, "reorder", 5, "reorder_refused_5");
}

const char* const skewed = R"(func skewed(x: f32[6, 6], t: f32[6, 6]) stage begin {
  for i in [0, 5) {
    for j in [0, 5) {
      block b(ordered vi in [0, 5) = i, space vj in [0, 5) = j) reads t[vi, vj + 1], x[vi, vj] writes t[vi + 1, vj] {
        t[vi + 1, vj] = t[vi, vj + 1] + x[vi, vj]
      }
    }
  }
}
)";

TEST(Reorder, RefusesWhatWouldRunBeforeTheInstanceItReadsFrom) {
  Schedule s(parse_func(skewed));
  expect_refused(s, [&] { reorder(s, {s.loop("b", 1), s.loop("b", 0)}); }, "reorder", 6, "reorder_refused_6");
}

TEST(Reorder, KeepsADependenceThatRunsForward) {
  const Func before = parse_func(R"(func forward(x: f32[6, 6], t: f32[6, 6]) stage begin {
  for i in [0, 5) {
    for j in [0, 5) {
      block b(space vi in [0, 5) = i, ordered vj in [0, 5) = j) reads t[vi, vj - 1], x[vi, vj] writes t[vi, vj] {
        t[vi, vj] = t[vi, vj - 1 if vj >= 1] + x[vi, vj]
      }
    }
  }
}
)");
  Schedule s(before);
  reorder(s, {s.loop("b", 1), s.loop("b", 0)});
  expect_scheduled(s, before, "reorder_forward");
}

TEST(Reorder, RefusesAccessesThatAreNotProvedApart) {
  Schedule s(parse_func(R"(func scatter(x: f32[4, 4], place: i64[4, 4], out: f32[16]) stage begin {
  for i in [0, 4) {
    for j in [0, 4) {
      block b(space vi in [0, 4) = i, space vj in [0, 4) = j) reads x[vi, vj], place[vi, vj] writes out[..] {
        out[place[vi, vj]] = x[vi, vj]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { reorder(s, {s.loop("b", 1), s.loop("b", 0)}); }, "reorder", 6, "reorder_refused_6_scatter");
  expect_refused(s, [&] { vectorize(s, s.loop("b", 1)); }, "vectorize", 5, "vectorize_refused_5_scatter");
}

TEST(Vectorize, RefusesToReadWhatTheIterationBeforeWrote) {
  Schedule s(parse_func(R"(func shift(x: f32[9], t: f32[9], out: f32[8]) stage begin {
  for i in [0, 8) {
    block a(space vi in [0, 8) = i) reads x[vi] writes t[vi + 1] {
      t[vi + 1] = x[vi]
    }
    block b(space wi in [0, 8) = i) reads t[wi] writes out[wi] {
      out[wi] = t[wi]
    }
  }
}
)"));
  expect_refused(s, [&] { vectorize(s, s.loop("a", 0)); }, "vectorize", 5, "vectorize_refused_5");
}

TEST(Vectorize, TellsLanesApartByWhereLoopsOutsideHaveThemBegin) {
  const auto vectorized = [](const char* written, const char* read) {
    Schedule s(parse_func(fmt::format(R"(func shifted(t: f32[32], out: f32[4, 8]) stage begin {{
  for o in [0, 4) {{
    for i in [0, 8) {{
      block a(space vi in [0, 32) = {}) writes t[vi] {{
        t[vi] = 1.0f32
      }}
      block b(space wo in [0, 4) = o, space wi in [0, 8) = i, space wj in [0, 32) = {}) reads t[wj]
          writes out[wo, wi] {{
        out[wo, wi] = t[wj]
      }}
    }}
  }}
}}
)",
                                      written, read)));
    vectorize(s, s.loop("a", 1));
  };
  EXPECT_NO_THROW(vectorized("o * 8 + i", "o * 8 + i"));
  EXPECT_NO_THROW(vectorized("o * 8 + 7 - i", "o * 8 + 7 - i"));
  EXPECT_THROW(vectorized("o * 8 + i", "o * 7 + i"), Refusal);
  EXPECT_THROW(vectorized("o * 8 + i", "o * 8 + i + 1"), Refusal);
  EXPECT_THROW(vectorized("o * 8 + i // 2", "o * 8 + i // 2"), Refusal);
}

TEST(Vectorize, MarksALoop) {
  const Func before = program("matmul");
  Schedule s(before);
  vectorize(s, split(s, s.loop("bias", 1), 16).second);
  expect_scheduled(s, before, "vectorize");
}

TEST(Vectorize, RefusesAnExtentThatIsNoConstant) {
  Schedule s(parse_func(R"(func symbolic(x: f32[n], n: i64, out: f32[n]) stage begin facts {n in [1, 100]} {
  for i in [0, n) {
    block b(space v in [0, n) = i) reads x[v] writes out[v] {
      out[v] = x[v]
    }
  }
}
)"));
  expect_refused(s, [&] { vectorize(s, s.loop("b", 0)); }, "vectorize", 1, "vectorize_refused_1");
  expect_refused(s, [&] { unroll(s, s.loop("b", 0)); }, "unroll", 1, "unroll_refused_1");
}

TEST(Vectorize, RefusesAVectorWithinAVector) {
  Schedule s(program("chain"));
  vectorize(s, s.loop("scale", 0));
  expect_refused(s, [&] { vectorize(s, s.loop("scale", 1)); }, "vectorize", 2, "vectorize_refused_2");
}

TEST(Vectorize, RefusesAReduceLoopAndNamesRfactor) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { vectorize(s, s.loop("product", 2)); }, "vectorize", 3, "vectorize_refused_3");
}

TEST(Vectorize, RefusesWhereAnInnerBoundDependsOnTheLoop) {
  Schedule s(parse_func(R"(func triangle(out: f32[4, 4]) stage begin {
  for i in [0, 4) {
    for j in [0, i) {
      block b(space vi in [0, 4) = i, space vj in [0, 4) = j) writes out[vi, vj] {
        out[vi, vj] = 2.0f32
      }
    }
  }
}
)"));
  expect_refused(s, [&] { vectorize(s, s.loop("b", 0)); }, "vectorize", 4, "vectorize_refused_4");
}

TEST(Unroll, MarksALoopAndAlsoAReduceLoop) {
  const Func before = program("matmul");
  Schedule s(before);
  unroll(s, s.loop("product", 2));
  annotate(s, s.loop("product", 0), "note", 3);
  expect_scheduled(s, before, "unroll");
}

TEST(Unroll, RefusesALoopThatIsNotSerial) {
  Schedule s(program("pad"));
  unroll(s, s.loop("pad", 0));
  expect_refused(s, [&] { unroll(s, s.loop("pad", 0)); }, "unroll", 2, "unroll_refused_2");
}

TEST(Annotate, RefusesAnEmptyKey) {
  Schedule s(program("pad"));
  expect_refused(s, [&] { annotate(s, s.loop("pad", 0), "", 1); }, "annotate", 1, "annotate_refused_1");
}

TEST(Schedule, NamesKnownBlocksWhenAskedForAnother) {
  const Schedule s(program("chain"));
  try {
    s.block("shif");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.message(), "unknown block 'shif'; did you mean 'shift'? known: scale, shift, store");
  }
}

TEST(Schedule, SaysThatALoopIsGoneOnceItWasSplit) {
  Schedule s(program("pad"));
  const LoopRef loop = s.loop("pad", 0);
  split(s, loop, 3);
  EXPECT_THROW(unroll(s, loop), InputError);
}

}  // namespace
}  // namespace lathe::testing
