/// split_iter, and the rule that applies it: blocks that take an index apart.
#include "schedule/primitives/split_iter.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/split.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// x, of `columns` elements, so many times one behind the other, plus y.
Func repeat(int columns, int times, const std::string& value) {
  return parse_func(fmt::format(R"(func repeat(x: f32[{0}], y: f32[3, {1}], out: f32[3, {1}]) {{
  for i in [0, 3) {{
    for j in [0, {1}) {{
      block repeat(space vi in [0, 3) = i, space vj in [0, {1}) = j) reads x[..], y[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = {2}
      }}
    }}
  }}
}}
)",
                                columns, columns * times, value));
}

std::string shifted(int columns) {
  return fmt::format("y[vi, vj] + x[vj % {}]", columns);
}

TEST(SplitIter, WalksQuotientAndRemainderByLoopsOfTheirOwn) {
  const Func before = repeat(5, 7, shifted(5));
  Schedule s(before);
  const auto [outer, inner] = split_iter(s, {"repeat"}, s.loop("repeat", 1), 5);
  EXPECT_TRUE(is_int(s.node(outer).extent, 7) && is_int(s.node(inner).extent, 5));
  expect_scheduled(s, before, "split_iter");
}

TEST(SplitIter, SplitsTheAxisOfASumWithItsRowsToo) {
  const Func before = parse_func(R"(func sums(x: f32[3, 5, 6], out: f32[10]) {
  for i in [0, 10) {
    for r in [0, 9) {
      block sums(space vi in [0, 10) = i, reduce vr in [0, 9) = r) reads x[..] writes out[vi] {
        reducer (a: f32) (b: f32) {a + b} identity {0.0f32}
        init { out[vi] = 0.0f32 }
        let a0: f32 = out[vi]
        let b0: f32 = x[vr // 3, vi // 2, vr % 3 * 2 + vi % 2]
        out[vi] = a0 + b0
      }
    }
  }
}
)");
  Schedule s(before);
  split_iter(s, {"sums"}, s.loop("sums", 1), 3);
  split_iter(s, {"sums"}, s.loop("sums", 0), 2);
  expect_scheduled(s, before, "split_iter_of_sums");
}

TEST(SplitIter, SplitsWhatIsComputedByTilesOfAnotherIter) {
  const Func before = parse_func(R"(func tiles(x: f32[3, 40], out: f32[10, 6]) {
  for io in [0, 3) {
    for ii in [0, 4) {
      for j in [0, 6) {
        block tiles(space vi in [0, 10) = io * 4 + ii, space vj in [0, 6) = j) where io * 4 + ii < 10
            reads x[..] writes out[vi, vj] {
          out[vi, vj] = x[vj % 3, vi + vj // 3]
        }
      }
    }
  }
}
)");
  Schedule s(before);
  split_iter(s, {"tiles"}, s.loop("tiles", 2), 3);
  expect_scheduled(s, before, "split_iter_of_tiles");
  EXPECT_THROW(split_iter(s, {"tiles"}, s.loop("tiles", 1), 2), Refusal);
}

TEST(SplitIter, KeepsTheOtherLoopsAsTheyAre) {
  const Func before = repeat(5, 7, shifted(5));
  Schedule s(before);
  bind_loop(s, s.loop("repeat", 0), "core");
  split_iter(s, {"repeat"}, s.loop("repeat", 1), 5);
  const For& outer = s.node(s.loop("repeat", 0));
  EXPECT_EQ(outer.for_kind, ForKind::bound);
  EXPECT_EQ(outer.thread_axis, "core");
}

TEST(SplitIter, LeavesOuterLoopsToOtherBlocksToo) {
  const Func before = parse_func(R"(func two(x: f32[4, 6], sum: f32[4], out: f32[4, 6]) {
  for i in [0, 4) {
    for r in [0, 6) {
      block sums(space vi in [0, 4) = i, reduce vr in [0, 6) = r) reads x[vi, vr] writes sum[vi] {
        reducer (a: f32) (b: f32) {a + b} identity {0.0f32}
        init { sum[vi] = 0.0f32 }
        let a0: f32 = sum[vi]
        let b0: f32 = x[vi, vr]
        sum[vi] = a0 + b0
      }
    }
    for j in [0, 6) {
      block two(space vi in [0, 4) = i, space vj in [0, 6) = j) reads x[vi, ..], sum[vi] writes out[vi, vj] {
        out[vi, vj] = x[vi, vj % 3] - sum[vi]
      }
    }
  }
}
)");
  Schedule s(before);
  split_iter(s, {"two"}, s.loop("two", 1), 3);
  expect_scheduled(s, before, "split_iter_beside_others");
  EXPECT_THROW(split_iter(s, {"two"}, s.loop("two", 0), 2), Refusal);
}

TEST(SplitIter, RefusesOtherBlocksAndLoopsAndWhatDoesNotDivide) {
  Schedule scan(parse_func(R"(func scan(x: f32[6], out: f32[6]) {
  for i in [0, 6) {
    block scan(ordered vi in [0, 6) = i) reads x[vi], out[..] writes out[vi] {
      out[vi] = x[vi] + out[max(vi - 1, 0)]
    }
  }
}
)"));
  expect_refused(
      scan, [&] { split_iter(scan, {"scan"}, scan.loop("scan", 0), 2); }, "split_iter", 1, "split_iter_refused_1");
  Schedule s(repeat(5, 7, shifted(5)));
  for (const int factor : {0, 1, 4, 35, 70}) {
    SCOPED_TRACE(factor);
    EXPECT_THROW(split_iter(s, {"repeat"}, s.loop("repeat", 1), factor), Refusal);
  }
  expect_refused(
      s, [&] { split_iter(s, {"repeat"}, s.loop("repeat", 1), 6); }, "split_iter", 3, "split_iter_refused_3");
  Schedule halves(repeat(5, 7, shifted(5)));
  const LoopRef outer = split(halves, halves.loop("repeat", 1), 7).first;
  EXPECT_THROW(split_iter(halves, {"repeat"}, outer, 5), Refusal);
}

TEST(SplitIter, NotOfALoopThatBoundsAnother) {
  const Func triangle = parse_func(R"(func t(x: f32[4, 8, 2], out: f32[8, 8]) stage begin {
  for i in [0, 8) { for j in [0, i + 1) {
    block b(space vi in [0, 8) = i, space vj in [0, 8) = j) reads x[..] writes out[vi, vj] {
      out[vi, vj] = x[vi // 2, vj, vi % 2] } } } })");
  Schedule s(triangle);
  EXPECT_THROW(split_iter(s, {"b"}, s.loop("b", 0), 2), Refusal);
  expect_scheduled_well(triangle);
}

TEST(SplitDigits, NestsLoopsWhereAnIndexIsTakenApart) {
  const auto splits = [](int columns, int times, const std::string& value) {
    const Func func = repeat(columns, times, value);
    expect_scheduled_well(func);
    return print(auto_schedule(func, wide())).find("space vjo in") != std::string::npos;
  };
  EXPECT_TRUE(splits(40, 6, shifted(40)));
  EXPECT_TRUE(splits(60, 4, "y[vi, vj] + x[vj % 60 // 4 * 4 + vj % 4]"));
  EXPECT_TRUE(splits(40, 6, "x[vj // 2 % 20]"));
  // Of three elements vectors would be mostly idle, and much is computed.
  EXPECT_FALSE(splits(3, 80, "exp(tanh(y[vi, vj])) + x[vj % 3]"));
  // 7 does not divide the extent.
  EXPECT_FALSE(splits(40, 6, "y[vi, vj] + x[vj % 7]"));
  EXPECT_FALSE(splits(40, 6, "y[vi, vj] + x[vj // 6]"));
}

/// Sums over an axis that joins others, which a load takes apart.
bool splits_sum(const std::string& element, const std::string& combined) {
  const Func func = parse_func(fmt::format(R"(func joined(x: f32[8, 6, 40], y: f32[320, 6], out: f32[6]) {{
  for i in [0, 6) {{
    for r in [0, 320) {{
      block joined(space vi in [0, 6) = i, reduce vr in [0, 320) = r) reads x[..], y[..] writes out[vi] {{
        reducer (a: f32) (b: f32) {{{1}}} identity {{0.0f32}}
        init {{ out[vi] = 0.0f32 }}
        let a0: f32 = out[vi]
        let b0: f32 = {0}
        out[vi] = {2}
      }}
    }}
  }}
}}
)",
                                           element, combined, replaced_all(combined, "a + b", "a0 + b0")));
  expect_scheduled_well(func);
  return decisions_on(func, wide(), "joined").find("split the axes that joined joins") != std::string::npos;
}

TEST(SplitJoinedSums, NestsLoopsOverTheAxesThatALoadTakesApart) {
  EXPECT_TRUE(splits_sum("x[vr // 40, vi, vr % 40]", "a + b"));
  EXPECT_TRUE(splits_sum("x[vr // 40, vi, vr % 40] * y[vr, vi]", "a + b"));
  // What each result reads is shared, but not what is taken apart.
  EXPECT_TRUE(splits_sum("x[vr // 40, vi, vr % 40] * y[vr, 0]", "a + b"));
  // It lies by constant steps as it is.
  EXPECT_FALSE(splits_sum("y[vr // 40 * 40 + vr % 40, vi]", "a + b"));
  // 7 does not divide the extent.
  EXPECT_FALSE(splits_sum("x[vr // 40, vi, vr % 7]", "a + b"));
  // A product's operand, read for each result.
  EXPECT_FALSE(splits_sum("x[vr // 40, 0, vr % 40] * y[vr, vi]", "a + b"));
  // But for a scale of rows beside what is read once.
  EXPECT_TRUE(splits_sum("x[vr // 40, vi, vr % 40] * y[vr // 40, 0]", "a + b"));
}

}  // namespace
}  // namespace lathe::testing
