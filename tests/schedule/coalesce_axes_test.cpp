/// The rule that makes one axis of two that all blocks beside a reduction walk one behind the other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums over `steps` arrays of `rows` by `columns`, the first so many of `pitch`.
Func sums(int steps, int rows, int columns, int pitch) {
  return parse_func(fmt::format(R"(
func sums(x: f32[{0}, {1}, {3}], out: f32[{1}, {2}]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, {1}) {{
      for j in [0, {2}) {{
        for r in [0, {0}) {{
          block total(space vi in [0, {1}) = i, space vj in [0, {2}) = j, reduce vr in [0, {0}) = r)
              reads x[vr, vi, vj], out[vi, vj] writes out[vi, vj] {{
            reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
            init {{ out[vi, vj] = 0.0f32 }}
            let l: f32 = out[vi, vj]
            let t: f32 = x[vr, vi, vj]
            out[vi, vj] = l + t
          }}
        }}
      }}
    }}
  }}
}}
)",
                                steps, rows, columns, pitch));
}

/// What is reduced along the first axis of `steps` arrays of 5 x 7 less the greatest there, where that is scaled by
/// `scale`, an expression of i and j.
Func shifted(int steps, const std::string& scale) {
  return parse_func(fmt::format(R"(
func shifted(x: f32[{0}, 5, 7], row: f32[7], all: f32[5, 7], out: f32[{0}, 5, 7]) stage begin {{
  block root() reads x[..], row[..], all[..], out[..] writes out[..] {{
    alloc greatest: f32[1, 5, 7]
    for i in [0, 5) {{
      for j in [0, 7) {{
        for r in [0, {0}) {{
          block largest(space vi in [0, 5) = i, space vj in [0, 7) = j, reduce vr in [0, {0}) = r)
              reads x[vr, vi, vj], greatest[0, vi, vj] writes greatest[0, vi, vj] {{
            reducer (lhs: f32) (rhs: f32) {{max(lhs, rhs)}} identity {{-inf(f32)}}
            init {{ greatest[0, vi, vj] = -inf(f32) }}
            let l: f32 = greatest[0, vi, vj]
            let t: f32 = x[vr, vi, vj]
            greatest[0, vi, vj] = max(l, t)
          }}
        }}
      }}
    }}
    for k in [0, {0}) {{
      for i in [0, 5) {{
        for j in [0, 7) {{
          block shift(space vk in [0, {0}) = k, space vi in [0, 5) = i, space vj in [0, 7) = j)
              reads x[vk, vi, vj], row[..], all[..], greatest[0, vi, vj] writes out[vk, vi, vj] {{
            out[vk, vi, vj] = x[vk, vi, vj] - greatest[0, vi, vj] * {1}
          }}
        }}
      }}
    }}
  }}
}}
)",
                                steps, scale));
}

bool joins(const Func& func) {
  ScheduleLog log;
  expect_same(func, auto_schedule(func, wide(), &log));
  return std::any_of(log.decisions.begin(), log.decisions.end(), [](const std::string& decision) {
    return decision.find(" and of all that has them") != std::string::npos;
  });
}

TEST(CoalesceAxes, OfRowsThatAreShortOrNoWholeVectors) {
  EXPECT_TRUE(joins(sums(2, 5, 7, 7)));
  EXPECT_TRUE(joins(sums(17, 3, 35, 35)));
  EXPECT_TRUE(joins(sums(16, 5, 16, 16)));
  EXPECT_TRUE(joins(sums(16, 2, 1003, 1003)));
  EXPECT_FALSE(joins(sums(16, 5, 64, 64))) << "four whole vectors";
  EXPECT_FALSE(joins(sums(16, 5, 7, 8))) << "rows lie apart";
}

/// Sums over r of x[r, i, j], of which results have dimensions of one between and behind.
TEST(CoalesceAxes, LeavesResultsWithADimensionBetween) {
  const Func func = parse_func(R"(
func sums(x: f32[6, 5, 7], out: f32[5, 1, 7, 1]) stage begin {
  for i in [0, 5) { for u in [0, 1) { for j in [0, 7) { for r in [0, 6) {
    block total(space vi in [0, 5) = i, space vu in [0, 1) = u, space vj in [0, 7) = j, reduce vr in [0, 6) = r)
        reads x[vr, vi, vj], out[vi, vu, vj, 0] writes out[vi, vu, vj, 0] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vu, vj, 0] = 0.0f32 }
      let l: f32 = out[vi, vu, vj, 0]
      let t: f32 = x[vr, vi, vj]
      out[vi, vu, vj, 0] = l + t } } } } }
})");
  for (const Device& device : {wide(), narrow()}) expect_same(func, auto_schedule(func, device));
}

TEST(CoalesceAxes, MakesOneAxisOfTheirResults) {
  const std::string text = print(auto_schedule(sums(16, 5, 7, 7), wide()));
  EXPECT_NE(text.find("f32[35]"), std::string::npos) << text;
}

TEST(CoalesceAxes, OfAllBlocksOrNone) {
  EXPECT_TRUE(joins(shifted(2, "1.0f32")));
  EXPECT_TRUE(joins(shifted(3, "all[vi, vj]")));
  EXPECT_FALSE(joins(shifted(3, "row[vj]"))) << "an operand that begins again with each row";
  EXPECT_FALSE(joins(shifted(3, "all[vi, 6 - vj]"))) << "an operand that is walked backwards";
  EXPECT_FALSE(joins(shifted(3, "select(vj < 3, all[vi, vj if vj < 3], 1.0f32)"))) << "an operand that is masked";
}

TEST(CoalesceAxes, KeepsOneDimensionBetweenBlocks) {
  const std::string text =
      print(apply_scheduling_rule(ask_for_schedule(shifted(3, "1.0f32")), wide(), "coalesce_axes"));
  EXPECT_NE(text.find("alloc greatest: f32[1, 35]"), std::string::npos) << text;
}

/// Rows of pixels of `channels` by a window of 5 of them, weighted by an element of w.
Func window(int channels, const std::string& weights, const std::string& weight) {
  return parse_func(fmt::format(R"(
func window(x: f32[9, 24, {0}], w: f32[{1}], out: f32[9, 20, {0}]) stage begin {{
  block root() reads x[..], w[..], out[..] writes out[..] {{
    for i in [0, 9) {{ for j in [0, 20) {{ for c in [0, {0}) {{ for r in [0, 5) {{
      block blur(space vi in [0, 9) = i, space vj in [0, 20) = j, space vc in [0, {0}) = c, reduce vr in [0, 5) = r)
          reads x[vi, vj + vr, vc], w[..], out[vi, vj, vc] writes out[vi, vj, vc] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi, vj, vc] = 0.0f32 }}
        let l: f32 = out[vi, vj, vc]
        let t: f32 = x[vi, vj + vr, vc] * w[{2}]
        out[vi, vj, vc] = l + t
      }} }} }} }} }}
  }}
}}
)",
                                channels, weights, weight));
}

TEST(CoalesceAxes, OfWindowsWhoseWeightsAreTheSameForAll) {
  for (const int channels : {2, 3, 4}) EXPECT_TRUE(joins(window(channels, "5", "vr")));
  EXPECT_FALSE(joins(window(3, "5, 3", "vr, vc"))) << "weights of each channel";
  EXPECT_FALSE(joins(window(16, "5", "vr"))) << "channels that fill a vector";
}

TEST(CoalesceAxes, OfPlacesOfTheGreatest) {
  const Func func = parse_func(R"(
func places(x: f32[4, 6, 7, 3], out: i64[4, 7, 3]) stage begin {
  block root() reads x[..], out[..] writes out[..] {
    alloc best: f32[4, 7, 3]
    for b in [0, 4) { for i in [0, 7) { for j in [0, 3) { for r in [0, 6) {
      block place(space vb in [0, 4) = b, space vi in [0, 7) = i, space vj in [0, 3) = j, reduce vr in [0, 6) = r)
          reads x[vb, vr, vi, vj], best[vb, vi, vj], out[vb, vi, vj] writes best[vb, vi, vj], out[vb, vi, vj] {
        reducer (l: f32, li: i64) (t: f32, ti: i64) {
            select(l < t || l == t && ti < li, t, l), select(l < t || l == t && ti < li, ti, li)}
          identity {-inf(f32), 9223372036854775807i64}
        init { best[vb, vi, vj] = -inf(f32) out[vb, vi, vj] = 9223372036854775807i64 }
        let l0: f32 = best[vb, vi, vj]
        let l1: i64 = out[vb, vi, vj]
        let r0: f32 = x[vb, vr, vi, vj]
        let r1: i64 = vr
        best[vb, vi, vj] = select(l0 < r0 || l0 == r0 && r1 < l1, r0, l0)
        out[vb, vi, vj] = select(l0 < r0 || l0 == r0 && r1 < l1, r1, l1)
      }
    } } } }
  }
}
)");
  EXPECT_TRUE(joins(func));
}

}  // namespace
}  // namespace lathe::testing
