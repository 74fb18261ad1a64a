#include "schedule/primitives/fuse_reductions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/interpreter/interpreter.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "tests/golden.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// programs/attend.tir with the first of each text in it replaced.
Func attend(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string text = read_file(std::string(LATHE_TEST_DIR) + "/programs/attend.tir");
  for (const auto& [from, to] : changes) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  return parse_func(text);
}

void expect_not_fused(const Func& func, int condition, const std::string& suffix = "",
                      const std::vector<BlockRef>& rest = {{"total"}, {"mix"}}, std::int64_t step = 4,
                      const std::string& first = "most") {
  Schedule s(func);
  expect_refused(
      s, [&] { fuse_reductions(s, {first}, rest, step); }, "fuse_reductions", condition,
      "fuse_reductions_refused_" + std::to_string(condition) + suffix);
}

TEST(FuseReductions, GivesStatisticsAndWeightedSumsInOneWalk) {
  const Func before = program("attend");
  Schedule s(before);
  EXPECT_EQ(fuse_reductions(s, {"most"}, {{"total"}, {"mix"}}, 4).name, "most");
  expect_scheduled(s, before, "fuse_reductions");
}

TEST(FuseReductions, TakesTheWholeAxisOrOneElementAtATime) {
  for (const std::int64_t step : {1, 2, 3, 6, 12}) {
    const Func before = program("attend");
    Schedule s(before);
    fuse_reductions(s, {"most"}, {{"total"}, {"mix"}}, step);
    expect_same(before, s.func());
  }
}

TEST(FuseReductions, RunsInBlocksOfRowsAndOfTheAxis) {
  const Func before = program("attend");
  Schedule s(before);
  fuse_reductions(s, {"most"}, {{"total"}, {"mix"}}, 4);
  const LoopRef row = s.loop("most", 0), step = s.loop("most", 1);
  const auto [rows, inner] = split(s, row, 2);
  reorder(s, {rows, step, inner});
  decompose_reduction(s, {"most"}, step);
  for (const char* block : {"mix_part", "total_part", "weigh", "most_part"}) compute_at(s, {block}, step);
  expect_scheduled(s, before, "fuse_reductions_blocks");
}

TEST(FuseReductions, FollowsAMinimumByARisingExponent) {
  const std::string text = R"(func fall(s: f32[3, 6], w: f32[6], l: f32[3]) stage begin {
  block root() reads s[..], w[..], l[..] writes l[..] {
    alloc m: f32[3, 1]
    for i in [0, 3) { for k in [0, 6) {
      block least(space vi in [0, 3) = i, reduce vk in [0, 6) = k) reads m[vi, 0], s[vi, vk] writes m[vi, 0] {
        reducer (lhs: f32) (rhs: f32) {min(lhs, rhs)} identity {inf(f32)}
        init { m[vi, 0] = inf(f32) }
        let l0: f32 = m[vi, 0]
        let r0: f32 = s[vi, vk] * 2.0f32
        m[vi, 0] = min(l0, r0)
      }
    } }
    for i1 in [0, 3) { for k1 in [0, 6) {
      block total(space vi1 in [0, 3) = i1, reduce vk1 in [0, 6) = k1)
          reads l[vi1], m[vi1, 0], s[vi1, vk1], w[vk1] writes l[vi1] {
        reducer (lhs2: f32) (rhs2: f32) {lhs2 + rhs2} identity {0.0f32}
        init { l[vi1] = 0.0f32 }
        let l1: f32 = l[vi1]
        let e: f32 = (m[vi1, 0] - s[vi1, vk1] * 2.0f32) * 2.0f32 + 1.0f32
        let r1: f32 = -w[vk1] * exp2(e) / 4.0f32
        l[vi1] = l1 + r1
      }
    } }
  }
}
)";
  const Func before = parse_func(text);
  Schedule s(before);
  fuse_reductions(s, {"least"}, {{"total"}}, 3);
  expect_scheduled(s, before, "fuse_reductions_least");
}

TEST(FuseReductions, MovesWhatNeedsTheResultsBehindAndTheRestBefore) {
  const std::string others = R"(    for i4 in [0, 4) {
      block shift(space vi4 in [0, 4) = i4) reads m[vi4] writes n[vi4] { n[vi4] = m[vi4] + 1.0f32 }
    }
    for k4 in [0, 12) {
      block twice(space vk4 in [0, 12) = k4) reads v[vk4, 0] writes w[vk4] { w[vk4] = v[vk4, 0] * 2.0f32 }
    }
    for i3 in [0, 4) {)";
  const Func before = attend({{"    for i3 in [0, 4) {", others},
                              {"    alloc p", "    alloc n: f32[4]\n    alloc w: f32[12]\n    alloc p"},
                              {"p[vi3, vk3] * v[vk3, vj]\n", "p[vi3, vk3] * w[vk3]\n"},
                              {"p[vi3, vk3], v[vk3, vj] writes", "p[vi3, vk3], w[vk3] writes"}});
  Schedule s(before);
  fuse_reductions(s, {"most"}, {{"total"}, {"mix"}}, 4);
  expect_same(before, s.func());
  std::vector<std::string> order;
  for (const BlockRef& block : s.blocks()) order.push_back(block.name);
  EXPECT_EQ(order.front(), "twice");
  EXPECT_EQ(order.back(), "shift");
}

/// Rows that are -inf in part and as a whole, that hold NaN or inf, and factors that are not finite.
TEST(FuseReductions, KeepsNanAndInfinities) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto run = [&](const Func& func) {
    std::vector<float> s(48), v(60, 1), out(20), l(4);
    for (size_t i = 0; i < s.size(); ++i) s[i] = static_cast<float>(i % 7) - 3;
    for (size_t k = 0; k < 12; ++k) s[12 + k] = k < 8 ? -inf : s[12 + k];
    for (size_t k = 0; k < 12; ++k) s[24 + k] = -inf;
    s[40] = inf;
    v[3] = inf;
    v[7] = nan;
    v[50] = -inf;
    std::vector<HostBuffer> buffers;
    for (std::vector<float>* data : {&s, &v, &out, &l}) {
      auto* bytes = reinterpret_cast<std::byte*>(data->data());
      buffers.push_back({bytes, bytes, bytes + data->size() * sizeof(float)});
    }
    EXPECT_EQ(interpret(func, buffers, {}), 0);
    out.insert(out.end(), l.begin(), l.end());
    return out;
  };
  const std::vector<float> expected = run(program("attend"));
  EXPECT_TRUE(std::isnan(expected[10]) && std::isnan(expected[22]) && std::isfinite(expected[21]));
  for (const std::int64_t step : {1, 4, 12}) {
    Schedule s(program("attend"));
    fuse_reductions(s, {"most"}, {{"total"}, {"mix"}}, step);
    const std::vector<float> found = run(s.func());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << i << ": " << found[i] << " for " << expected[i];
    }
  }
}

TEST(FuseReductions, RefusesAFirstThatIsNoExtreme) {
  expect_not_fused(program("attend"), 1, "", {{"mix"}}, 4, "total");
  Schedule split_already(program("attend"));
  split(split_already, split_already.loop("most", 0), 2);
  expect_refused(
      split_already, [&] { fuse_reductions(split_already, {"most"}, {{"total"}, {"mix"}}, 4); }, "fuse_reductions", 1,
      "fuse_reductions_refused_1_split");
}

TEST(FuseReductions, RefusesAStepThatDoesNotDivide) {
  expect_not_fused(program("attend"), 2, "", {{"total"}, {"mix"}}, 5);
  expect_not_fused(program("attend"), 2, "_zero", {{"total"}, {"mix"}}, 0);
}

TEST(FuseReductions, RefusesWhatIsNoSum) {
  expect_not_fused(program("attend"), 3, "", {{"weigh"}});
}

TEST(FuseReductions, RefusesABlockBetweenWithOtherReaders) {
  expect_not_fused(program("attend"), 4, "", {{"mix"}});
}

TEST(FuseReductions, RefusesTheResultOfAnotherRow) {
  expect_not_fused(attend({{"exp2(s[vi1, vk1] - m[vi1])", "exp2(s[vi1, vk1] - m[3 - vi1])"}}), 4, "_row");
}

TEST(FuseReductions, RefusesTermsThatFollowInNoKnownWay) {
  expect_not_fused(attend({{"exp2(s[vi1, vk1] - m[vi1])", "s[vi1, vk1] - m[vi1]"}}), 5);
  expect_not_fused(attend({{"exp2(s[vi1, vk1] - m[vi1])", "exp2(s[vi1, vk1] + m[vi1])"}}), 5, "_grows");
  expect_not_fused(attend({{"exp2(s[vi1, vk1] - m[vi1])", "exp2(m[vi1] - s[vi1, vk1])"}}), 5, "_sign");
}

TEST(FuseReductions, RefusesASumThatNeedsAnotherWhole) {
  const std::string scale_of_total = R"(    for i4 in [0, 4) {
      block invert(space vi4 in [0, 4) = i4) reads l[vi4] writes c[vi4] { c[vi4] = 1.0f32 / l[vi4] }
    }
    for i3 in [0, 4) {)";
  expect_not_fused(attend({{"p[vi3, vk3] * v[vk3, vj]\n", "p[vi3, vk3] / l[vi3] * v[vk3, vj]\n"},
                           {"p[vi3, vk3], v[vk3, vj] writes", "p[vi3, vk3], l[vi3], v[vk3, vj] writes"}}),
                   6);
  expect_not_fused(attend({{"    for i3 in [0, 4) {", scale_of_total},
                           {"    alloc p", "    alloc c: f32[4]\n    alloc p"},
                           {"p[vi3, vk3] * v[vk3, vj]\n", "p[vi3, vk3] * c[vi3] * v[vk3, vj]\n"},
                           {"p[vi3, vk3], v[vk3, vj] writes", "p[vi3, vk3], c[vi3], v[vk3, vj] writes"}}),
                   6, "_scaled");
}

}  // namespace
}  // namespace lathe::testing
