/// Sums of squares about a mean, in parts (part_squares) and in one walk (walk_squares).
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "schedule/primitives/part_squares.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/walk_squares.h"
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

std::vector<LoopRef> part_loops(Schedule& s, std::int64_t length) {
  return {split(s, s.loop("total", 1), length).first};
}

TEST(PartSquares, GivesSumsAndSquaresOfPartsTheirOwnMeans) {
  const Func before = spread();
  Schedule s(before);
  const std::vector<BlockRef> parts = part_squares(s, {"total"}, {"squares"}, part_loops(s, 4));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "total_part");
  EXPECT_EQ(parts[1].name, "squares_part");
  expect_scheduled(s, before, "part_squares");
}

TEST(PartSquares, TakesLanesAndPartsAtOnce) {
  const Func before = spread();
  Schedule s(before);
  const auto [outer, rest] = split(s, s.loop("total", 1), 8);
  const LoopRef lane = split(s, rest, 2).second;
  part_squares(s, {"total"}, {"squares"}, {outer, lane});
  expect_same(before, s.func());
}

TEST(PartSquares, KnowsTheMeanByAProductAndWithoutABlockOfItsOwn) {
  const Func product = spread({{"s[vi1] / 16.0f32", "0.0625f32 * s[vi1]"}});
  Schedule s(product);
  part_squares(s, {"total"}, {"squares"}, part_loops(s, 8));
  expect_same(product, s.func());
  const Func in_place = spread({{"reads x[vi2, vk2], m[vi2], q[vi2]", "reads x[vi2, vk2], s[vi2], q[vi2]"},
                                {"(x[vi2, vk2] - m[vi2]) * (x[vi2, vk2] - m[vi2])",
                                 "(s[vi2] / 16.0f32 - x[vi2, vk2]) * (s[vi2] / 16.0f32 - x[vi2, vk2])"}});
  Schedule t(in_place);
  part_squares(t, {"total"}, {"squares"}, part_loops(t, 8));
  expect_same(in_place, t.func());
}

TEST(WalkSquares, MergesBlocksWithWhatCameBefore) {
  const Func before = spread();
  Schedule s(before);
  const LoopRef within = split(s, s.loop("total", 1), 8).second;
  const std::vector<BlockRef> made = walk_squares(s, {"total"}, {"squares"}, within);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[2].name, "total");
  expect_scheduled(s, before, "walk_squares");
}

TEST(WalkSquares, TakesPartsAndAllAtOnce) {
  const Func before = spread();
  Schedule s(before);
  const auto [outer, rest] = split(s, s.loop("total", 1), 8);
  split(s, rest, 4);
  const std::vector<BlockRef> parts = part_squares(s, {"total"}, {"squares"}, {outer});
  walk_squares(s, parts[0], parts[1], s.loops(parts[0]).back());
  expect_same(before, s.func());
  Schedule t(before);
  walk_squares(t, {"total"}, {"squares"}, t.loop("total", 1));
  expect_same(before, t.func());
}

void expect_not_parted(const Func& func, int condition, const std::string& suffix = "",
                       const BlockRef& squares = {"squares"}) {
  Schedule s(func);
  const std::vector<LoopRef> parts = part_loops(s, 4);
  expect_refused(
      s, [&] { part_squares(s, {"total"}, squares, parts); }, "part_squares", condition,
      "part_squares_refused_" + std::to_string(condition) + suffix);
}

TEST(PartSquares, IsRefused) {
  expect_not_parted(spread({{"init { s[vi] = 0.0f32 }", "init { s[vi] = 1.0f32 }"}}), 1);
  expect_not_parted(spread({{"(x[vi2, vk2] - m[vi2]) * (x", "(x[vi2, vk2] + m[vi2]) * (x"}}), 2);
  expect_not_parted(spread({{"let r0: f32 = x[vi, vk]", "let r0: f32 = x[vi, vk] * 2.0f32"}}), 2, "_terms");
  expect_not_parted(spread(), 2, "_itself", {"total"});
  expect_not_parted(spread({{"s[vi1] / 16.0f32", "s[vi1] / 15.0f32"}}), 3);
  expect_not_parted(spread({{"m[vi1] = s[vi1] / 16.0f32", "m[vi1] = 1.0f32"}, {"reads s[vi1] ", ""}}), 3, "_constant");
  const std::string other = R"(    for i3 in [0, 3) {
      block change(space vi3 in [0, 3) = i3) reads x[vi3, 0] writes x[vi3, 0] { x[vi3, 0] = x[vi3, 0] + 1.0f32 }
    }
    for i2 in [0, 3) { for k2)";
  expect_not_parted(
      spread({{"    for i2 in [0, 3) { for k2", other}, {"writes s[..], q[..]", "writes s[..], q[..], x[..]"}}), 4);
}

TEST(PartSquares, LeavesTermsWithinAPart) {
  Schedule s(spread());
  expect_refused(
      s, [&] { part_squares(s, {"total"}, {"squares"}, {s.loop("total", 1)}); }, "part_squares", 5,
      "part_squares_refused_5");
  EXPECT_THROW(part_squares(s, {"total"}, {"squares"}, {}), InputError);
}

TEST(WalkSquares, IsRefusedAlongResults) {
  Schedule s(spread());
  expect_refused(
      s, [&] { walk_squares(s, {"total"}, {"squares"}, s.loop("total", 0)); }, "walk_squares", 5,
      "walk_squares_refused_5");
}

}  // namespace
}  // namespace lathe::testing
