#include "schedule/primitives/parallel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(Parallel, MarksALoopWithItsGrain) {
  const Func before = program("matmul");
  Schedule s(before);
  parallel(s, s.loop("product", 0), 2);
  parallel(s, s.loop("bias", 0), 1);
  expect_scheduled(s, before, "parallel");
}

TEST(Parallel, RefusesAGrainBelowOne) {
  Schedule s(program("pad"));
  expect_refused(s, [&] { parallel(s, s.loop("pad", 0), 0); }, "parallel", 1, "parallel_refused_1");
}

TEST(Parallel, RefusesAParallelLoopWithinAnother) {
  Schedule s(program("chain"));
  parallel(s, s.loop("scale", 0));
  expect_refused(s, [&] { parallel(s, s.loop("scale", 1)); }, "parallel", 2, "parallel_refused_2");
}

TEST(Parallel, RefusesALoopWhoseIterationsDependOnEachOther) {
  Schedule s(program("scan"));
  expect_refused(s, [&] { parallel(s, s.loop("scan", 1)); }, "parallel", 3, "parallel_refused_3");
}

TEST(Parallel, RefusesIterationsThatWriteTheSameElements) {
  Schedule s(parse_func(R"(func same(out: f32[4], more: f32[4]) stage begin {
  for i in [0, 4) {
    for j in [0, 4) {
      block a(space vj in [0, 4) = j) writes out[vj] {
        out[vj] = 2.0f32
      }
    }
    block b(space vi in [0, 4) = i) writes more[vi] {
      more[vi] = 3.0f32
    }
  }
}
)"));
  expect_refused(s, [&] { parallel(s, s.loop("a", 0)); }, "parallel", 4, "parallel_refused_4");
}

TEST(Parallel, RefusesToReadWhatAnotherIterationWrites) {
  Schedule s(parse_func(R"(func across(t: f32[4], out: f32[4]) stage begin {
  for i in [0, 4) {
    block a(space vi in [0, 4) = i) writes t[vi] {
      t[vi] = 2.0f32
    }
    block b(space wi in [0, 4) = i) reads t[3 - wi] writes out[wi] {
      out[wi] = t[3 - wi]
    }
  }
}
)"));
  expect_refused(s, [&] { parallel(s, s.loop("a", 0)); }, "parallel", 5, "parallel_refused_5");
}

/// Tiles of `wide` columns, told apart by digits of one loop, fill a matrix through a buffer of their own part.
Func digits(const std::string& row, const std::string& column, int wide) {
  return parse_func(fmt::format(R"(func digits(x: f32[8, 64], out: f32[8, 64]) stage begin {{
  block root() reads x[..] writes out[..] {{
    alloc t: f32[8, 64]
    for f in [0, 16) {{
      for j in [0, {2}) {{
        block fill(space vi in [0, 8) = {0}, space vj in [0, 64) = {1} * 32 + j) where {1} * 32 + j < 64
            reads x[vi, vj] writes t[vi, vj] {{
          t[vi, vj] = x[vi, vj] + 1.0f32
        }}
      }}
      for k in [0, 32) {{
        block use(space wi in [0, 8) = {0}, space wk in [0, 64) = {1} * 32 + k) reads t[wi, wk] writes out[wi, wk] {{
          out[wi, wk] = t[wi, wk]
        }}
      }}
    }}
  }}
}}
)",
                                row, column, wide));
}

TEST(Parallel, TellsTheTilesOfAFusedLoopApartByItsDigits) {
  for (const auto& [row, column] : {std::pair("f % 8", "f // 8"), {"f // 2", "f % 2"}}) {
    const Func before = digits(row, column, 32);
    Schedule s(before);
    parallel(s, s.loop("use", 0));
    EXPECT_FALSE(print(s.func()).find("private") != std::string::npos);
    expect_same(before, s.func());
  }
}

/// Rows of 127 that lie one behind the other, in panels of 48.
Func copied_panels(const std::string& column) {
  return parse_func(fmt::format(R"(func panels(x: f32[31, 127], out: f32[83, 48]) stage begin {{
  for i in [0, 31) {{
    for j in [0, 127) {{
      block copy(space vi in [0, 31) = i, space vj in [0, 127) = j)
          reads x[vi, vj] writes out[(vi * 127 + vj) // 48, {}] {{
        out[(vi * 127 + vj) // 48, {}] = x[vi, vj]
      }}
    }}
  }}
}}
)",
                                column, column));
}

TEST(Parallel, TellsPanelsApartWhoseRemaindersLackMultiples) {
  const Func before = copied_panels("(vi * 31 + vj) % 48");
  Schedule s(before);
  parallel(s, s.loop("copy", 0));
  expect_same(before, s.func());
  Schedule other(copied_panels("(vi * 32 + vj) % 48"));
  EXPECT_THROW(parallel(other, other.loop("copy", 0)), Refusal) << "another remainder";
}

/// Three, 17 and five iterations as one loop, whose digits are apart in the places that they make up; `row` as `vi`
/// counts in remainders.
Func copied_digits(int row) {
  const std::string place =
      fmt::format("out[(vi * 3400 + vb * 200 + vj) // 48, vr, (vi * {} + vb * 8 + vj) % 48]", row);
  return parse_func(fmt::format(R"(func panels(x: f32[3, 200, 17, 64], out: f32[4534, 3, 48]) stage begin {{
  for f in [0, 255) {{
    for i in [0, 64) {{
      for j in [0, 40) {{
        block copy(space vr in [0, 3) = f // 85, space vb in [0, 17) = f // 5 % 17, space vj in [0, 200) = f % 5 * 40 + j, space vi in [0, 64) = i)
            reads x[vr, vj, vb, vi] writes {0} {{
          {0} = x[vr, vj, vb, vi]
        }}
      }}
    }}
  }}
}}
)",
                                place));
}

TEST(Parallel, TellsPanelsApartByTheDigitsOfTheirPlaces) {
  const Func before = copied_digits(40);
  Schedule s(before);
  parallel(s, s.loop("copy", 0));
  expect_same(before, s.func());
  Schedule other(copied_digits(41));
  EXPECT_THROW(parallel(other, other.loop("copy", 0)), Refusal) << "another remainder";
}

TEST(Parallel, DoesNotTakeDigitsForSlicesThatOverlap) {
  // Sixteen iterations, and eight rows of one column; or tiles that reach into the next one.
  Schedule same(digits("f % 8", "f // 16", 32));
  EXPECT_THROW(parallel(same, same.loop("use", 0)), Refusal);
  Schedule s(digits("f % 8", "f // 8", 33));
  parallel(s, s.loop("use", 0));
  EXPECT_NE(print(s.func()).find("private_t"), std::string::npos) << "each needs a copy";
}

TEST(Parallel, TellsSlicesOfSlicesApartByTwoDigitsOfOneDimension) {
  const auto tiles = [](int wide) {
    return parse_func(fmt::format(R"(func tiles(x: f32[8, 64], out: f32[8, 64]) stage begin {{
  block root() reads x[..] writes out[..] {{
    alloc t: f32[8, 64]
    for f in [0, 32) {{
      for j in [0, 16) {{
        block fill(space vi in [0, 8) = f // 2 % 8, space vj in [0, 64) = f // 16 * {0} + f % 2 * 16 + j)
            reads x[vi, vj] writes t[vi, vj] {{
          t[vi, vj] = x[vi, vj] + 1.0f32
        }}
      }}
      for k in [0, 16) {{
        block use(space wi in [0, 8) = f // 2 % 8, space wk in [0, 64) = f // 16 * {0} + f % 2 * 16 + k)
            reads t[wi, wk] writes out[wi, wk] {{
          out[wi, wk] = t[wi, wk]
        }}
      }}
    }}
  }}
}}
)",
                                  wide));
  };
  const Func before = tiles(32);
  Schedule apart(before);
  parallel(apart, apart.loop("use", 0));
  EXPECT_EQ(print(apart.func()).find("private"), std::string::npos);
  expect_same(before, apart.func());
  Schedule meet(tiles(16));
  EXPECT_THROW(parallel(meet, meet.loop("use", 0)), Refusal) << "f = 1 and f = 16 write the same columns";
}

TEST(Parallel, TellsTilesApartByWhereTheirBlocksRun) {
  const auto tiles = [](const std::string& block, const std::string& body) {
    return parse_func(fmt::format(R"(func tiles(x: f32[96], out: f32[96]) stage begin {{
  block root() reads x[..] writes out[..] {{
    alloc t: f32[96]
    for f in [0, 3) {{
      for jo in [0, 5) {{
        for ji in [0, 8) {{
          block {0} where jo * 8 + ji < 32 {1}
        }}
      }}
      for k in [0, 32) {{
        block use(space wk in [0, 96) = f * 32 + k) reads t[wk] writes out[wk] {{
          out[wk] = t[wk]
        }}
      }}
    }}
  }}
}}
)",
                                  block, body));
  };
  const Func copied = tiles("fill(space vj in [0, 96) = f * 32 + jo * 8 + ji)", R"(reads x[vj] writes t[vj] {
            t[vj] = x[vj] + 1.0f32
          })");
  Schedule s(copied);
  parallel(s, s.loop("use", 0));
  EXPECT_EQ(print(s.func()).find("private"), std::string::npos);
  expect_same(copied, s.func());

  // Of sums the instances beyond a tile's columns are cut off, but not their inits.
  const Func summed = tiles("fill(space vj in [0, 96) = f * 32 + jo * 8 + ji, reduce vr in [0, 1) = 0)",
                            R"(reads x[vj], t[vj] writes t[vj] {
            reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
            init {
              t[vj] = 0.0f32
            }
            let l: f32 = t[vj]
            let r: f32 = x[vj]
            t[vj] = l + r
          })");
  Schedule inits(summed);
  parallel(inits, inits.loop("use", 0));
  EXPECT_NE(print(inits.func()).find("private_t"), std::string::npos) << "inits reach into the next tile";
}

TEST(Parallel, TakesALoopOfOneIterationAsItIs) {
  const Func before = parse_func(R"(func once(out: f32[4], more: f32[1]) stage begin {
  for i in [0, 1) {
    for j in [0, 4) {
      block a(space vj in [0, 4) = j) writes out[vj] {
        out[vj] = 2.0f32
      }
    }
    block b(space vi in [0, 1) = i) reads out[3] writes more[vi] {
      more[vi] = out[3]
    }
  }
}
)");
  Schedule s(before);
  parallel(s, s.loop("a", 0));
  EXPECT_EQ(s.node(s.loop("a", 0)).for_kind, ForKind::parallel);
  expect_same(before, s.func());
}

/// Each iteration fills the first `filled` elements of a scratch buffer, and uses two.
Func scratch(int filled) {
  return parse_func(fmt::format(R"(func scratch(x: f32[8], y: f32[4], out: f32[8]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    alloc t: f32[4]
    for i in [0, 8) {{
      for j in [0, {}) {{
        block fill(space vj in [0, 4) = j) reads y[vj] writes t[vj] {{
          t[vj] = y[vj]
        }}
      }}
      block use(space vi in [0, 8) = i) reads t[1], t[3], x[vi] writes out[vi] {{
        out[vi] = t[1] + t[3] + x[vi]
      }}
      block spoil(space wi in [0, 8) = i) writes t[3] {{
        t[3] = 1.0f32
      }}
    }}
  }}
}}
)",
                                filled));
}

TEST(Parallel, GivesEachIterationTheScratchThatItWritesBeforeItReads) {
  Schedule s(scratch(4));
  parallel(s, s.loop("use", 0));
  EXPECT_EQ(s.node(s.loop("use", 0)).for_kind, ForKind::parallel);
}

TEST(Parallel, RefusesScratchThatAnIterationReadsBeforeItWrites) {
  Schedule s(scratch(3));
  expect_refused(s, [&] { parallel(s, s.loop("use", 0)); }, "parallel", 5, "parallel_refused_5_scratch");
}

}  // namespace
}  // namespace lathe::testing
