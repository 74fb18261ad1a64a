#include "schedule/primitives/merge_equal.h"

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/split.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// x + 1 in `first`, which callers see, and again in a temporary; `attributes` are the Func's.
Func shown(const std::string& attributes = "") {
  return parse_func(fmt::format(R"(func shown(x: f32[4], first: f32[4], out: f32[4]) stage begin {} {{
  block root() reads x[..], first[..], out[..] writes first[..], out[..] {{
    alloc b: f32[4]
    for i in [0, 4) {{ block one(space vi in [0, 4) = i) reads x[vi] writes first[vi] {{ first[vi] = x[vi] + 1.0f32 }} }}
    for j in [0, 4) {{ block two(space vj in [0, 4) = j) reads x[vj] writes b[vj] {{ b[vj] = x[vj] + 1.0f32 }} }}
    for k in [0, 4) {{ block both(space vk in [0, 4) = k) reads x[vk], b[vk] writes out[vk] {{ out[vk] = x[vk] * b[vk] }} }}
  }}
}}
)",
                                attributes));
}

/// Row sums of x in `a`, and again in `b` with the term given; `between` stands between the two.
Func sums(const std::string& term = "x[ui, uk]", const std::string& between = "", const std::string& shape = "4") {
  return parse_func(fmt::format(R"(func sums(x: f32[4, 6], out: f32[4]) stage begin {{
  block root() reads x[..], out[..] writes x[..], out[..] {{
    alloc a: f32[4]
    alloc b: f32[{2}]
    for i in [0, 4) {{ for k in [0, 6) {{
      block first(space vi in [0, 4) = i, reduce vk in [0, 6) = k) reads a[vi], x[vi, vk] writes a[vi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ a[vi] = 0.0f32 }}
        let l: f32 = a[vi]
        let r: f32 = x[vi, vk]
        a[vi] = l + r
      }}
    }} }}
    {1}
    for p in [0, 4) {{ for q in [0, 6) {{
      block again(space ui in [0, 4) = p, reduce uk in [0, 6) = q) reads b[ui], x[ui, uk] writes b[ui] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ b[ui] = 0.0f32 }}
        let old: f32 = b[ui]
        let new: f32 = {0}
        b[ui] = old + new
      }}
    }} }}
    for i2 in [0, 4) {{
      block both(space vi2 in [0, 4) = i2) reads a[vi2], b[vi2] writes out[vi2] {{ out[vi2] = a[vi2] * b[vi2] }}
    }}
  }}
}}
)",
                                term, between, shape));
}

TEST(MergeEqual, ReadersReadTheFirst) {
  const Func before = sums();
  Schedule s(before);
  merge_equal(s, {"again"}, {"first"});
  expect_scheduled(s, before, "merge_equal");
}

TEST(MergeEqual, ReadersInATileToo) {
  const Func before = sums();
  Schedule s(before);
  blockize(s, s.loop("both", 0));
  merge_equal(s, {"again"}, {"first"});
  expect_scheduled(s, before, "merge_equal_tile");
}

TEST(MergeEqual, ReadersReadAnOutput) {
  const Func before = shown();
  Schedule s(before);
  merge_equal(s, {"two"}, {"one"});
  expect_scheduled(s, before, "merge_equal_output");
}

TEST(MergeEqual, RefusesAnOutputThatOthersMayAlias) {
  Schedule s(shown("attrs {may_alias: \"first,x\"}"));
  expect_refused(s, [&] { merge_equal(s, {"two"}, {"one"}); }, "merge_equal", 1, "merge_equal_refused_1_alias");
}

TEST(MergeEqual, RefusesABlockWhoseLoopsAreNotAsTraced) {
  Schedule s(sums());
  split(s, s.loop("again", 1), 2);
  expect_refused(s, [&] { merge_equal(s, {"again"}, {"first"}); }, "merge_equal", 1, "merge_equal_refused_1");
}

TEST(MergeEqual, RefusesAResultThatCallersSee) {
  Schedule s(sums());
  expect_refused(s, [&] { merge_equal(s, {"both"}, {"first"}); }, "merge_equal", 1, "merge_equal_refused_1_parameter");
}

TEST(MergeEqual, RefusesAnotherComputation) {
  Schedule s(sums("x[ui, 5 - uk]"));
  expect_refused(s, [&] { merge_equal(s, {"again"}, {"first"}); }, "merge_equal", 2, "merge_equal_refused_2");
}

TEST(MergeEqual, RefusesTheLaterInTheFirstsPlace) {
  Schedule s(sums());
  expect_refused(s, [&] { merge_equal(s, {"first"}, {"again"}); }, "merge_equal", 2, "merge_equal_refused_2_order");
}

TEST(MergeEqual, RefusesWhatReadsOtherValuesByThen) {
  Schedule s(sums("x[ui, uk]", R"(for i1 in [0, 4) {
      block change(space vi1 in [0, 4) = i1) reads x[vi1, 0] writes x[vi1, 0] { x[vi1, 0] = x[vi1, 0] + 1.0f32 }
    })"));
  expect_refused(s, [&] { merge_equal(s, {"again"}, {"first"}); }, "merge_equal", 3, "merge_equal_refused_3");
}

TEST(MergeDuplicates, TheSchedulerComputesEachSumOnce) {
  const Func before = sums();
  const Func after = auto_schedule(before, wide());
  expect_same(before, after);
  EXPECT_EQ(print(after).find("again"), std::string::npos);
}

TEST(MergeDuplicates, TheSchedulerReadsWhatCallersSeeToo) {
  const Func before = shown();
  const Func after = auto_schedule(before, wide());
  expect_same(before, after);
  EXPECT_EQ(decisions_on(before, wide(), "two"), "merge two with one, which computes the same\n");
}

TEST(MergeDuplicates, CallersSeeBothOfTwoEqualOutputs) {
  const Func before = parse_func(R"(func twice(x: f32[4], a: f32[4], b: f32[4]) stage begin {
  block root() reads x[..] writes a[..], b[..] {
    for i in [0, 4) { block one(space vi in [0, 4) = i) reads x[vi] writes a[vi] { a[vi] = x[vi] + 1.0f32 } }
    for j in [0, 4) { block two(space vj in [0, 4) = j) reads x[vj] writes b[vj] { b[vj] = x[vj] + 1.0f32 } }
  }
})");
  expect_same(before, auto_schedule(before, wide()));
}

/// Three times x + 1, each with a square of it, and a sum of the squares.
Func squares() {
  std::string allocs, nests;
  for (int k = 0; k < 3; ++k) {
    allocs += fmt::format("    alloc a{0}: f32[4]\n    alloc s{0}: f32[4]\n", k);
    nests += fmt::format(
        R"(    for i in [0, 4) {{ block more{0}(space vi in [0, 4) = i) reads x[vi] writes a{0}[vi] {{ a{0}[vi] = x[vi] + 1.0f32 }} }}
    for j in [0, 4) {{ block square{0}(space vj in [0, 4) = j) reads a{0}[vj] writes s{0}[vj] {{ s{0}[vj] = a{0}[vj] * a{0}[vj] }} }}
)",
        k);
  }
  return parse_func(fmt::format(R"(func squares(x: f32[4], out: f32[4]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
{}{}    for k in [0, 4) {{
      block all(space vk in [0, 4) = k) reads s0[vk], s1[vk], s2[vk] writes out[vk] {{ out[vk] = s0[vk] + s1[vk] + s2[vk] }}
    }}
  }}
}}
)",
                                allocs, nests));
}

TEST(MergeBatch, GivesWhatOneApplicationAfterAnotherGives) {
  Schedule together(squares()), apart(squares());
  MergeBatch batch(together);
  for (const char* step : {"more", "square"}) {
    for (int k = 1; k < 3; ++k) {
      const BlockRef block{fmt::format("{}{}", step, k)}, original{fmt::format("{}0", step)};
      ASSERT_TRUE(batch.block(block));
      EXPECT_TRUE(batch.add(block, original)) << block.name;
      merge_equal(apart, block, original);
    }
  }
  EXPECT_EQ(batch.size(), 4u);
  batch.apply();
  EXPECT_EQ(together.record(), apart.record());
  EXPECT_EQ(print(together.func()), print(apart.func()));
  expect_scheduled(together, squares(), "merge_batch");
}

TEST(MergeBatch, TakesNoneThatMergeEqualRefuses) {
  const auto takes = [](const Func& func, const char* block, const char* original) {
    Schedule schedule(func);
    return MergeBatch(schedule).add({block}, {original});
  };
  EXPECT_TRUE(takes(sums(), "again", "first"));
  EXPECT_FALSE(takes(sums("x[ui, uk] * 2.0f32"), "again", "first"));
  EXPECT_FALSE(takes(sums(), "first", "again"));
  EXPECT_TRUE(takes(shown(), "two", "one"));
  EXPECT_FALSE(takes(shown("attrs {may_alias: \"first,x\"}"), "two", "one"));
}

}  // namespace
}  // namespace lathe::testing
