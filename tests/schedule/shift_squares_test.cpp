#include "schedule/primitives/shift_squares.h"

#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums, means and squares of rows of 16, with the first of each text replaced.
Func spread(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  std::string text = R"(func spread(x: f32[3, 16], s: f32[3], q: f32[3]) stage begin {
  block root() reads x[..], s[..], q[..] writes s[..], q[..] {
    alloc m: f32[3]
    for i in [0, 3) { for k in [0, 16) {
      block total(space vi in [0, 3) = i, reduce vk in [0, 16) = k) reads x[vi, vk], s[vi] writes s[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { s[vi] = 0.0f32 }
        let l0: f32 = s[vi]
        let r0: f32 = x[vi, vk]
        s[vi] = l0 + r0
      }
    } }
    for i1 in [0, 3) {
      block mean(space vi1 in [0, 3) = i1) reads s[vi1] writes m[vi1] { m[vi1] = s[vi1] / 16.0f32 }
    }
    for i2 in [0, 3) { for k2 in [0, 16) {
      block squares(space vi2 in [0, 3) = i2, reduce vk2 in [0, 16) = k2)
          reads x[vi2, vk2], m[vi2], q[vi2] writes q[vi2] {
        reducer (lhs2: f32) (rhs2: f32) {lhs2 + rhs2} identity {0.0f32}
        init { q[vi2] = 0.0f32 }
        let l1: f32 = q[vi2]
        let r1: f32 = (x[vi2, vk2] - m[vi2]) * (x[vi2, vk2] - m[vi2])
        q[vi2] = l1 + r1
      }
    } }
  }
}
)";
  for (const auto& [from, to] : changes) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  return parse_func(text);
}

TEST(ShiftSquares, HasNeitherSumWaitForTheOther) {
  const Func before = spread();
  Schedule s(before);
  const std::vector<BlockRef> sums = shift_squares(s, {"total"}, {"squares"}, 4);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].name, "total_shifted");
  EXPECT_EQ(sums[1].name, "squares_shifted");
  expect_scheduled(s, before, "shift_squares");
}

TEST(ShiftSquares, TakesOneTermOrAll) {
  for (const std::int64_t terms : {1, 2, 16}) {
    const Func before = spread();
    Schedule s(before);
    shift_squares(s, {"total"}, {"squares"}, terms);
    expect_same(before, s.func());
  }
}

TEST(ShiftSquares, KnowsTheMeanByAProductAndWithoutABlockOfItsOwn) {
  const Func product = spread({{"s[vi1] / 16.0f32", "0.0625f32 * s[vi1]"}});
  Schedule s(product);
  shift_squares(s, {"total"}, {"squares"}, 4);
  expect_same(product, s.func());
  const Func in_place = spread({{"reads x[vi2, vk2], m[vi2], q[vi2]", "reads x[vi2, vk2], s[vi2], q[vi2]"},
                                {"(x[vi2, vk2] - m[vi2]) * (x[vi2, vk2] - m[vi2])",
                                 "(s[vi2] / 16.0f32 - x[vi2, vk2]) * (s[vi2] / 16.0f32 - x[vi2, vk2])"}});
  Schedule t(in_place);
  shift_squares(t, {"total"}, {"squares"}, 4);
  expect_same(in_place, t.func());
}

TEST(ShiftSquares, SamplesNoFewerTermsThanAsked) {
  const std::string text = R"(func planes(x: f32[5, 7], s: f32[1], q: f32[1]) stage begin {
  block root() reads x[..], s[..], q[..] writes s[..], q[..] {
    for k in [0, 5) { for l in [0, 7) {
      block total(reduce vk in [0, 5) = k, reduce vl in [0, 7) = l) reads x[vk, vl], s[0] writes s[0] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { s[0] = 0.0f32 }
        let l0: f32 = s[0]
        let r0: f32 = x[vk, vl]
        s[0] = l0 + r0
      }
    } }
    for k1 in [0, 5) { for l1 in [0, 7) {
      block squares(reduce vk1 in [0, 5) = k1, reduce vl1 in [0, 7) = l1) reads x[vk1, vl1], s[0], q[0] writes q[0] {
        reducer (lhs1: f32) (rhs1: f32) {lhs1 + rhs1} identity {0.0f32}
        init { q[0] = 0.0f32 }
        let l1_: f32 = q[0]
        let r1: f32 = (x[vk1, vl1] - s[0] / 35.0f32) * (x[vk1, vl1] - s[0] / 35.0f32)
        q[0] = l1_ + r1
      }
    } }
  }
}
)";
  for (const std::int64_t terms : {1, 4, 10, 34, 35}) {
    Schedule s(parse_func(text));
    shift_squares(s, {"total"}, {"squares"}, terms);
    std::int64_t sampled = 1;
    for (const LoopRef& loop : s.loops({"total_sample"})) sampled *= *as_int(s.node(loop).extent);
    EXPECT_GE(sampled, terms);
    EXPECT_LE(sampled, 2 * terms + 7);
  }
}

void expect_not_shifted(const Func& func, int condition, const std::string& suffix = "",
                        const BlockRef& squares = {"squares"}, std::int64_t terms = 4) {
  Schedule s(func);
  expect_refused(
      s, [&] { shift_squares(s, {"total"}, squares, terms); }, "shift_squares", condition,
      "shift_squares_refused_" + std::to_string(condition) + suffix);
}

TEST(ShiftSquares, IsRefused) {
  expect_not_shifted(spread({{"init { s[vi] = 0.0f32 }", "init { s[vi] = 1.0f32 }"}}), 1);
  expect_not_shifted(spread({{"(x[vi2, vk2] - m[vi2]) * (x", "(x[vi2, vk2] + m[vi2]) * (x"}}), 2);
  expect_not_shifted(spread({{"let r0: f32 = x[vi, vk]", "let r0: f32 = x[vi, vk] * 2.0f32"}}), 2, "_terms");
  expect_not_shifted(spread(), 2, "_itself", {"total"});
  expect_not_shifted(spread({{"s[vi1] / 16.0f32", "s[vi1] / 15.0f32"}}), 3);
  expect_not_shifted(spread({{"m[vi1] = s[vi1] / 16.0f32", "m[vi1] = 1.0f32"}, {"reads s[vi1] ", ""}}), 3, "_constant");
  const std::string other = R"(    for i3 in [0, 3) {
      block change(space vi3 in [0, 3) = i3) reads x[vi3, 0] writes x[vi3, 0] { x[vi3, 0] = x[vi3, 0] + 1.0f32 }
    }
    for i2 in [0, 3) { for k2)";
  expect_not_shifted(
      spread({{"    for i2 in [0, 3) { for k2", other}, {"writes s[..], q[..]", "writes s[..], q[..], x[..]"}}), 4);
  const auto behind_mean = [](const std::string& block) {
    return std::pair<std::string, std::string>{"    for i2 in [0, 3) { for k2",
                                               "    for i4 in [0, 3) {\n      block again(space vi4 in [0, 3) = i4) " +
                                                   block + " }\n    for i2 in [0, 3) { for k2"};
  };
  expect_not_shifted(spread({behind_mean("reads m[vi4] writes m[vi4] { m[vi4] = m[vi4] + 1.0f32 }")}), 3, "_again");
  // What stands before the sum has made the mean of another one; and it may be made of itself.
  const std::string mean = R"(    for i1 in [0, 3) {
      block mean(space vi1 in [0, 3) = i1) reads s[vi1] writes m[vi1] { m[vi1] = s[vi1] / 16.0f32 }
    }
)";
  const std::string first = "    for i in [0, 3) { for k in";
  expect_not_shifted(spread({{mean, ""}, {first, mean + first}}), 3, "_before");
  const std::string scale = R"(    for i5 in [0, 3) {
      block scale(space vi5 in [0, 3) = i5) reads m[vi5] writes m[vi5] { m[vi5] = m[vi5] * 0.5f32 }
    }
)";
  expect_not_shifted(spread({{first, scale + first}}), 3, "_itself");
  expect_not_shifted(spread(), 5, "", {"squares"}, 17);
  expect_not_shifted(spread(), 5, "_none", {"squares"}, 0);
}

}  // namespace
}  // namespace lathe::testing
