/// split_domain, and the rule that applies it: blocks that choose by their place.
#include "schedule/primitives/split_domain.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/split.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Rows of three tensors, one below the other.
Func join(int first, int second, int third, int columns) {
  return parse_func(
      fmt::format(R"(func join(a: f32[{0}, {3}], b: f32[{1}, {3}], c: f32[{2}, {3}], out: f32[{4}, {3}]) {{
  for i in [0, {4}) {{
    for j in [0, {3}) {{
      block join(space vi in [0, {4}) = i, space vj in [0, {3}) = j) reads a[..], b[..], c[..] writes out[vi, vj] {{
        out[vi, vj] = select(vi < {0}, a[vi, vj if vi < {0}],
                           select({5} <= vi, c[vi - {5}, vj if {5} <= vi], b[vi - {0}, vj if {0} <= vi && vi < {5}]))
      }}
    }}
  }}
}}
)",
                  first, second, third, columns, first + second + third, first + second));
}

TEST(SplitDomain, LeavesOutWhatEachPartDecides) {
  const Func before = join(3, 2, 4, 5);
  Schedule s(before);
  const BlockRef rest = split_domain(s, {"join"}, s.loop("join", 0), 3);
  EXPECT_EQ(rest.name, "join_1");
  expect_scheduled(s, before, "split_domain");
}

TEST(SplitDomain, CutsOneLoopOfATile) {
  const Func before = join(3, 2, 4, 5);
  Schedule s(before);
  const auto [outer, inner] = split(s, s.loop("join", 0), 3);
  bind_loop(s, outer, "block");
  bind_loop(s, inner, "lane");
  split_domain(s, {"join"}, s.loop("join", 2), 2);
  EXPECT_EQ(s.blocks().size(), 2U);
  expect_same_results(before, s.func());
}

TEST(SplitDomain, CutsAnInnerLoopAndABlockAgain) {
  const Func before = join(3, 2, 4, 5);
  Schedule s(before);
  const BlockRef rest = split_domain(s, {"join"}, s.loop("join", 1), 2);
  split_domain(s, rest, s.loop(rest.name, 0), 5);
  expect_scheduled(s, before, "split_domain_again");
}

/// Sums of rows, and what is joined of two functions of each row and its sum, under one loop over rows.
Func rows_beside_sums() {
  return parse_func(R"(func rows(x: f32[6, 8], out: f32[6, 8]) {
  block root() reads x[..] writes out[..] {
    alloc s: f32[6]
    for i in [0, 6) {
      for k in [0, 8) {
        block sum(space vi in [0, 6) = i, reduce vk in [0, 8) = k) reads s[vi], x[vi, vk] writes s[vi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init { s[vi] = 0.0f32 }
          let l: f32 = s[vi]
          let r: f32 = x[vi, vk]
          s[vi] = l + r
        }
      }
      for j in [0, 8) {
        block join(space vi in [0, 6) = i, space vj in [0, 8) = j) reads s[vi], x[vi, ..] writes out[vi, vj] {
          out[vi, vj] = select(vj < 3, x[vi, vj if vj < 3] * s[vi], x[vi, 10 - vj if 3 <= vj] + s[vi])
        }
      }
    }
  }
}
)");
}

TEST(SplitDomain, CutsALoopOfItsOwnUnderOneThatIsShared) {
  const Func before = rows_beside_sums();
  Schedule s(before);
  const BlockRef rest = split_domain(s, {"join"}, s.loop("join", 1), 3);
  expect_scheduled(s, before, "split_domain_shared");
  EXPECT_THROW(split_domain(s, rest, s.loop(rest.name, 0), 2), Refusal) << "the sums lie in it";
}

TEST(SplitDomain, RefusesReductionsAndBlocksWhoseLoopsWereSplit) {
  Schedule sums(matmul(4, 4, 4, false));
  const std::string name = sums.blocks().front().name;
  expect_refused(
      sums, [&] { split_domain(sums, {name}, sums.loop(name, 0), 2); }, "split_domain", 1, "split_domain_refused_1");
  Schedule s(join(3, 2, 4, 5));
  const LoopRef outer = split(s, s.loop("join", 0), 3).first;
  EXPECT_THROW(split_domain(s, {"join"}, outer, 2), Refusal);
}

TEST(SplitDomain, RefusesABlockThatBeginsWithAnInit) {
  Schedule s(parse_func(R"(func once(x: f32[8], y: f32[8]) {
  for i in [0, 8) {
    block a(space vi in [0, 8) = i) reads y[vi], x[vi] writes y[vi] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { y[vi] = 0.0f32 }
      let l: f32 = y[vi]
      let r: f32 = x[vi]
      y[vi] = l + r
    }
  }
}
)"));
  EXPECT_THROW(split_domain(s, {"a"}, s.loop("a", 0), 3), Refusal) << "the init would stay behind with the first part";
}

TEST(SplitDomain, RefusesALoopThatIsNotTheBlocks) {
  Schedule s(parse_func(R"(func two(x: f32[8], y: f32[8], z: f32[8]) {
  for i in [0, 8) { block a(space vi in [0, 8) = i) reads x[vi] writes y[vi] { y[vi] = x[vi] } }
  for j in [0, 8) { block b(space vj in [0, 8) = j) reads x[vj] writes z[vj] { z[vj] = x[vj] } }
}
)"));
  expect_refused(s, [&] { split_domain(s, {"a"}, s.loop("b", 0), 2); }, "split_domain", 2, "split_domain_refused_2");
}

TEST(SplitDomain, RefusesAPointThatLeavesAPartEmpty) {
  Schedule s(join(3, 2, 4, 5));
  EXPECT_THROW(split_domain(s, {"join"}, s.loop("join", 0), 0), Refusal);
  expect_refused(
      s, [&] { split_domain(s, {"join"}, s.loop("join", 0), 9); }, "split_domain", 3, "split_domain_refused_3");
}

bool cuts(const Func& func) {
  return decisions_on(func, wide(), "join").find("cut join where it chooses") != std::string::npos;
}

TEST(CutChoices, MakesWholeCopiesOfWhatIsJoined) {
  expect_golden(print(auto_schedule(join(20, 4, 9, 33), wide())), "auto_cut_choices.tir");
  expect_scheduled_well(join(20, 4, 9, 33));
}

TEST(CutChoices, LeavesWhatWouldBeTooSmall) {
  EXPECT_TRUE(cuts(join(20, 4, 9, 33)));
  EXPECT_TRUE(cuts(join(20, 4, 9, 32)));
  EXPECT_FALSE(cuts(join(20, 4, 9, 31))) << "four rows of 31 elements are less than eight vectors of sixteen";
}

TEST(CutChoices, CutsRowsOfSeveralOperandsHoweverShort) {
  const auto sides = [](int left, int right) {
    return parse_func(fmt::format(R"(func sides(a: f32[20, {0}], b: f32[20, {1}], out: f32[20, {2}]) {{
  for i in [0, 20) {{
    for j in [0, {2}) {{
      block join(space vi in [0, 20) = i, space vj in [0, {2}) = j) reads a[..], b[..] writes out[vi, vj] {{
        out[vi, vj] = select(vj < {0}, a[vi, vj if vj < {0}], b[vi, vj - {0} if {0} <= vj])
      }}
    }}
  }}
}}
)",
                                  left, right, left + right));
  };
  EXPECT_TRUE(cuts(sides(80, 64)));
  EXPECT_TRUE(cuts(sides(80, 1))) << "an edge beside a part of several vectors";
  EXPECT_TRUE(cuts(sides(17, 33)));
  EXPECT_TRUE(cuts(sides(15, 15))) << "halves of vectors, of a row that is longer than one";
  EXPECT_TRUE(cuts(sides(3, 14)));
  EXPECT_TRUE(cuts(sides(7, 7))) << "two in one vector";
  EXPECT_FALSE(cuts(sides(1, 1))) << "single elements, which are woven";
  expect_scheduled_well(sides(80, 64));
  expect_scheduled_well(sides(17, 33));
  expect_scheduled_well(sides(15, 15));
  expect_scheduled_well(sides(80, 1));
}

/// Sums of rows of 5, 30, 7 and 62 elements, joined, or of as few of them.
Func sums_of_joined(int operands) {
  const std::vector<int> starts = {0, 5, 35, 42, 104};
  std::string params, reads, value;
  for (int k = operands; k-- > 0;) {
    const int from = starts[k], to = k + 1 == operands ? 104 : starts[k + 1];
    params = fmt::format("x{}: f32[64, {}], {}", k, to - from, params);
    reads += fmt::format("{}x{}[..]", reads.empty() ? "" : ", ", k);
    const std::string element = fmt::format("x{0}[vi, vj - {1} if {1} <= vj && vj < {2}]", k, from, to);
    value = value.empty() ? element : fmt::format("select(vj < {}, {}, {})", to, element, value);
  }
  return parse_func(fmt::format(R"(func sums({}out: f32[64]) {{
  block root() reads {} writes out[..] {{
    alloc joined: f32[64, 104]
    for i in [0, 64) {{ for j in [0, 104) {{
      block join(space vi in [0, 64) = i, space vj in [0, 104) = j) reads {} writes joined[vi, vj] {{
        joined[vi, vj] = {} }} }} }}
    for i in [0, 64) {{ for k in [0, 104) {{
      block sum(space vi in [0, 64) = i, reduce vk in [0, 104) = k) reads out[vi], joined[vi, vk] writes out[vi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi] = 0.0f32 }}
        let l: f32 = out[vi]
        let r: f32 = joined[vi, vk]
        out[vi] = l + r }} }} }} }} }}
)",
                                params, reads, reads, value));
}

TEST(CutChoices, CopiesWhatIsJoinedOfManyPartByPartForItsReader) {
  const Func many = sums_of_joined(4);
  const std::string decisions = decisions_on(many, wide(), "join");
  EXPECT_TRUE(says(decisions, "keep join: its parts are computed apart, and read together")) << decisions;
  EXPECT_TRUE(says(decisions, "keep join out of")) << decisions;
  EXPECT_TRUE(says(decisions, "cut join where it chooses by its place")) << decisions;
  expect_scheduled_well(many);
  const Func two = sums_of_joined(2);
  EXPECT_TRUE(says(decisions_on(two, wide(), "join"), "inline join"));
  expect_scheduled_well(two);
}

TEST(CutChoices, CutsCostlyBodiesWhoseChoicesComputeOtherThings) {
  const auto halves = [](const std::string& shared, const std::string& left, const std::string& right) {
    return parse_func(fmt::format(R"(func halves(x: f32[20, 128], out: f32[20, 128]) {{
  for i in [0, 20) {{
    for j in [0, 128) {{
      block join(space vi in [0, 20) = i, space vj in [0, 128) = j) reads x[..] writes out[vi, vj] {{
        let y: f32 = {}
        out[vi, vj] = select(vj < 64, {}, {})
      }}
    }}
  }}
}}
)",
                                  shared, left, right));
  };
  const std::string a = "x[vi, vj * 2 if vj < 64]", b = "x[vi, vj * 2 - 128 if 64 <= vj]";
  const Func waves =
      halves("1.0f32", fmt::format("exp({0}) / (y + {0})", a), fmt::format("exp({0}) * sin({0}) * y", b));
  EXPECT_TRUE(cuts(waves));
  expect_scheduled_well(waves);
  EXPECT_FALSE(cuts(halves("exp(x[vi, vj]) * sin(x[vi, vj])", "y / 3.0f32", "y / 4.0f32")))
      << "what both compute weighs more than the choice";
}

TEST(CutChoices, FunctionsThatAreJoinedAreComputedWhereTheyStand) {
  const Func func =
      parse_func(R"(func rotary(x: f32[64, 64], c: f32[64, 32], s: f32[64, 32], out: f32[64, 64]) stage begin {
  block root() reads x[..], c[..], s[..] writes out[..] {
    alloc a: f32[64, 32]
    alloc b: f32[64, 32]
    for i in [0, 64) { for j in [0, 32) { block a(space vi in [0, 64) = i, space vj in [0, 32) = j) reads x[..], c[vi, vj], s[vi, vj] writes a[vi, vj] {
      a[vi, vj] = x[vi, vj] * c[vi, vj] - x[vi, vj + 32] * s[vi, vj] } } }
    for i in [0, 64) { for j in [0, 32) { block b(space vi in [0, 64) = i, space vj in [0, 32) = j) reads x[..], c[vi, vj], s[vi, vj] writes b[vi, vj] {
      b[vi, vj] = x[vi, vj + 32] * c[vi, vj] + x[vi, vj] * s[vi, vj] } } }
    for i in [0, 64) { for j in [0, 64) { block join(space vi in [0, 64) = i, space vj in [0, 64) = j) reads a[..], b[..] writes out[vi, vj] {
      out[vi, vj] = select(vj < 32, a[vi, vj if vj < 32], b[vi, vj - 32 if 31 < vj]) } } }
  } }
)");
  const std::string text = print(auto_schedule(func, wide()));
  EXPECT_EQ(text.find("alloc"), std::string::npos) << text;
  EXPECT_TRUE(cuts(func));
  expect_scheduled_well(func);
}

TEST(CutChoices, CutsWhereADigitIsChosenBy) {
  const auto windows = [](int columns) {
    return parse_func(fmt::format(R"(func windows(x: f32[8, 66, {1}], out: f32[24, 64, {0}]) {{
  for i in [0, 24) {{ for j in [0, 64) {{ for k in [0, {0}) {{
    block join(space vi in [0, 24) = i, space vj in [0, 64) = j, space vk in [0, {0}) = k) reads x[..] writes out[vi, vj, vk] {{
      out[vi, vj, vk] = select(vi % 3 < 1, x[vi // 3, vj, vk if vi % 3 < 1], select(vi % 3 < 2,
        x[vi // 3, vj + 1, vk + 1 if 0 < vi % 3 && vi % 3 < 2], x[vi // 3, vj + 2, vk + 2 if 1 < vi % 3])) }} }} }} }} }}
)",
                                  columns, columns + 2));
  };
  EXPECT_TRUE(cuts(windows(62)));
  EXPECT_FALSE(cuts(windows(7))) << "rows that fill no vector";
  expect_scheduled_well(windows(62));
}

int parts(const Func& func) {
  int count = 0;
  for_each_stmt(auto_schedule(func, wide())->body, [&](const Stmt& s) { count += s.as<Block>() ? 1 : 0; });
  return count;
}

TEST(CutChoices, CutsOffEndsOfRowsWhereTheReadsJump) {
  const auto rows = [](const std::string& value) {
    return parse_func(fmt::format(R"(func rows(x: f32[20, 100], out: f32[20, 100]) {{
  for i in [0, 20) {{
    for j in [0, 100) {{
      block row(space vi in [0, 20) = i, space vj in [0, 100) = j) reads x[..] writes out[vi, vj] {{
        out[vi, vj] = {}
      }}
    }}
  }}
}}
)",
                                  value));
  };
  const Func ring = rows("x[vi, (vj + 1) % 100] + x[vi, (vj - 1) % 100]");
  EXPECT_EQ(parts(ring), 3);
  expect_scheduled_well(ring);
  const Func edges = rows("x[vi, min(max(vj - 9, 0), 87)]");
  EXPECT_NE(decisions_on(edges, wide(), "row").find("cut row"), std::string::npos)
      << "half a vector, and a shorter end";
  EXPECT_EQ(parts(rows("x[(vi + 1) % 20, vj]")), 1) << "each row is a whole one";
  EXPECT_EQ(parts(rows("select(0 < vj, x[vi, vj - 1 if 0 < vj], 0.0f32)")), 1) << "a mask leaves out the end";
  EXPECT_EQ(parts(rows("x[vi, (vj + 50) % 100]")), 1) << "no part fills several vectors";
  const Func both = rows("x[vi, (vj + 1) % 100] + x[vi, (vj - 1) % 100] + select(vi < 5, 1.0f32, 0.0f32)" +
                         std::string(" + select(vi < 12, 1.0f32, 0.0f32)"));
  EXPECT_EQ(parts(both), 3) << "nine would be too many";
  expect_scheduled_well(both);
}

TEST(CutChoices, CutsRowsWhereTheyRepeatOthers) {
  const auto repeats = [](int columns, int period, int offset) {
    return parse_func(fmt::format(R"(func repeats(x: f32[20, {1}], out: f32[20, {0}]) {{
  for i in [0, 20) {{
    for j in [0, {0}) {{
      block join(space vi in [0, 20) = i, space vj in [0, {0}) = j) reads x[..] writes out[vi, vj] {{
        out[vi, vj] = x[vi % 7, (vj + {2}) % {1}]
      }}
    }}
  }}
}}
)",
                                  columns, period, offset));
  };
  EXPECT_EQ(parts(repeats(300, 100, 0)), 3);
  EXPECT_EQ(parts(repeats(350, 100, 70)), 1) << "the first part would have thirty elements";
  EXPECT_EQ(parts(repeats(350, 100, -130)), 1) << "the first part would have thirty elements";
  EXPECT_EQ(parts(repeats(364, 100, 36)), 4);
  EXPECT_EQ(parts(repeats(801, 100, 0)), 1) << "more than eight parts";
  expect_scheduled_well(repeats(300, 100, 0));
  expect_scheduled_well(repeats(364, 100, 36));
}

}  // namespace
}  // namespace lathe::testing
