#include "schedule/primitives/cache_padding.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A convolution along the second dimension whose operand is `operand`, over vi, vj, vk, after `lets`.
Func convolution(const std::string& operand, const std::string& reads = "x[vi, vj + vk - 1]",
                 const std::string& lets = "") {
  return parse_func(fmt::format(R"(func convolution(x: f32[3, 10], w: f32[3], out: f32[3, 10]) stage begin {{
  block root() reads x[..], w[..] writes out[..] {{
    for i in [0, 3) {{
      for j in [0, 10) {{
        for k in [0, 3) {{
          block sum(space vi in [0, 3) = i, space vj in [0, 10) = j, reduce vk in [0, 3) = k)
              reads {1}, w[vk], out[vi, vj] writes out[vi, vj] {{
            reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
            init {{
              out[vi, vj] = 0.0f32
            }}
            let l: f32 = out[vi, vj]
            {2}
            let r: f32 = {0} * w[vk]
            out[vi, vj] = l + r
          }}
        }}
      }}
    }}
  }}
}}
)",
                                operand, reads, lets));
}

const std::string padded =
    "select(0 < vj + vk && vj + vk < 11, x[vi, vj + vk - 1 if 0 < vj + vk && vj + vk < 11], 0.0f32)";

TEST(CachePadding, PadsOnce) {
  const Func before = convolution(padded);
  Schedule s(before);
  EXPECT_EQ(cache_padding(s, {"sum"}, "x", space::global).name, "x_pad");
  expect_scheduled(s, before, "cache_padding");
}

TEST(CachePadding, TakesRunsOfAnIterForAnAxis) {
  const std::string inside = "0 < vj + vk && vj + vk < 11";
  const auto padded_at = [&](const std::string& row) {
    return convolution(fmt::format("select({0}, x[{1}, vj + vk - 1 if {0}], 0.0f32)", inside, row),
                       fmt::format("x[{}, vj + vk - 1]", row));
  };
  const Func before = padded_at("vi // 2 + 1");
  Schedule s(before);
  cache_padding(s, {"sum"}, "x", space::global);
  expect_scheduled(s, before, "cache_padding_runs");
  const Func moved = padded_at("(vi + 1) // 2 + 1");
  Schedule later(moved);
  cache_padding(later, {"sum"}, "x", space::global);
  expect_scheduled(later, moved, "cache_padding_runs_moved");
  // With another iter beside them, runs say nothing of the range.
  Schedule mixed(padded_at("vi + vk - vi // 2"));
  expect_refused(
      mixed, [&] { cache_padding(mixed, {"sum"}, "x", space::global); }, "cache_padding", 2,
      "cache_padding_refused_2_mixed");
}

TEST(CachePadding, KnowsWhatALetStandsFor) {
  const Func before = convolution("select(inside, x[vi, place - 1 if inside], 0.0f32)", "x[vi, vj + vk - 1]",
                                  "let place: i64 = vj + vk let inside: bool = 0 < place && place < 11");
  Schedule s(before);
  cache_padding(s, {"sum"}, "x", space::global);
  expect_scheduled(s, before, "cache_padding_lets");
}

TEST(CachePadding, PadsATileUnderALoop) {
  const Func before = convolution(padded);
  Schedule s(before);
  const BlockRef copy = cache_padding(s, {"sum"}, "x", space::global);
  compute_at(s, copy, split(s, s.loop("sum", 1), 4).first);
  expect_scheduled(s, before, "cache_padding_tile");
}

TEST(CachePadding, KeepsStridesAndOtherConditions) {
  const Func before =
      convolution("select(!(9 < 2 * vj + vk), x[vi, 2 * vj + vk if !(9 < 2 * vj + vk)], 0.0f32)", "x[vi, 2 * vj + vk]");
  Schedule s(before);
  cache_padding(s, {"sum"}, "x", space::global);
  expect_scheduled(s, before, "cache_padding_strided");
}

TEST(CachePadding, KnowsAConditionWithoutTheFactorOfItsTerms) {
  const Func before = convolution(
      "select(0 < vj + vk && vj + vk < 6, x[vi, 2 * vj + 2 * vk - 2 if 0 < vj + vk && vj + vk < 6], 0.0f32)",
      "x[vi, 2 * vj + 2 * vk - 2]");
  Schedule s(before);
  cache_padding(s, {"sum"}, "x", space::global);
  expect_scheduled(s, before, "cache_padding_factor");
}

TEST(CachePadding, SetsElementsApart) {
  const Func before = convolution(
      "select(0 < 2 * vj + vk && 2 * vj + vk < 11, x[vi, 2 * vj + vk - 1 if 0 < 2 * vj + vk && 2 * vj + vk < 11], "
      "0.0f32)",
      "x[vi, 2 * vj + vk - 1]");
  Schedule s(before);
  cache_padding(s, {"sum"}, "x", space::global, 2);
  expect_scheduled(s, before, "cache_padding_apart");
  const Func plain = convolution("x[vi, vj]", "x[vi, vj]");
  Schedule unpadded(plain);
  cache_padding(unpadded, {"sum"}, "x", space::global, 3);
  expect_scheduled(unpadded, plain, "cache_padding_apart_unpadded");
}

TEST(CachePadding, RepeatsElementsOfABorder) {
  for (const char* place :
       {"abs(vj + vk - 1) % 10", "9 - abs(9 - abs(vj + vk - 1))", "min(abs(vj + vk - 1), 18 - abs(vj + vk - 1))",
        "min(max(vj + vk - 1, 0), 9)", "(vj + vk + 9) % 10", "min(max(vj + vk, 1) - 1, 9)",
        "select(vj + vk < 1, 1 - vj - vk, select(vj + vk < 11, vj + vk - 1, 19 - vj - vk))"}) {
    const Func before = convolution(fmt::format("x[vi, {}]", place), "x[vi, 0:+10]");
    Schedule s(before);
    cache_padding(s, {"sum"}, "x", space::global);
    expect_same_results(before, s.func());
    EXPECT_NE(print(s.func()).find("x_padded[vi, vj + vk] * w[vk]"), std::string::npos) << print(s.func());
  }
  const Func plain = convolution("x[vi, vj]", "x[vi, vj]");
  Schedule s(plain);
  EXPECT_THROW(cache_padding(s, {"sum"}, "x", space::global), Refusal) << "there is nothing to pad";
  const Func both = convolution("x[vi, min(vj, vk)]", "x[vi, 0:+10]");
  Schedule t(both);
  EXPECT_THROW(cache_padding(t, {"sum"}, "x", space::global), Refusal) << "two sums";
}

/// Windows over rows of which the first `x` has and `y` the others, padded.
Func joined_windows(const char* place) {
  return parse_func(fmt::format(
      R"(func joined(x: f32[2, 10], y: f32[3, 10], w: f32[5, 3], out: f32[10]) stage begin {{
  for j in [0, 10) {{ for c in [0, 5) {{ for k in [0, 3) {{
    block sum(space vj in [0, 10) = j, reduce vc in [0, 5) = c, reduce vk in [0, 3) = k)
        reads x[vc, vj + vk - 1], y[0:+3, vj + vk - 1], w[vc, vk], out[vj] writes out[vj]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vj] = 0.0f32 }}
      let l: f32 = out[vj]
      let r: f32 = select(0 < vj + vk && vj + vk < 11,
                          select(vc < 2, x[vc, vj + vk - 1 if 0 < vj + vk && vj + vk < 11 && vc < 2],
                                 y[{}, vj + vk - 1 if 0 < vj + vk && vj + vk < 11 && 1 < vc]), 0.0f32) * w[vc, vk]
      out[vj] = l + r
    }} }} }} }}
}}
)",
      place));
}

TEST(CachePadding, ReadsNothingForInstancesThatAPredicateLeavesOut) {
  const Func before = parse_func(R"(func doubled(x: f32[10], out: f32[10]) stage begin {
  block root() reads x[..] writes out[..] {
    for jo in [0, 3) {
      for ji in [0, 4) {
        block read(space vo in [0, 3) = jo, space vi in [0, 4) = ji) where jo * 4 + ji < 10
            reads x[vo * 4 + vi] writes out[vo * 4 + vi] {
          out[vo * 4 + vi] = select(0 < vo * 4 + vi, x[vo * 4 + vi if 0 < vo * 4 + vi], 1.0f32) * 2.0f32
        }
      }
    }
  }
}
)");
  Schedule s(before);
  cache_padding(s, {"read"}, "x", space::global);
  expect_scheduled(s, before, "cache_padding_predicate");
}

TEST(CachePadding, JoinsWhatItChoosesFrom) {
  const Func before = joined_windows("vc - 2");
  for (const char* buffer : {"x", "y"}) {
    Schedule s(before);
    cache_padding(s, {"sum"}, buffer, space::global);
    expect_same_results(before, s.func());
    EXPECT_NE(print(s.func()).find(fmt::format("{}_padded[vc, vj + vk] * w[vc, vk]", buffer)), std::string::npos)
        << print(s.func());
  }
  const Func other = joined_windows("vc * vc % 3");
  Schedule t(other);
  EXPECT_THROW(cache_padding(t, {"sum"}, "x", space::global), Refusal) << "y is read at another place";
}

TEST(CachePadding, RefusesAnIterThatTwoIndicesUse) {
  const Func turning = convolution("x[vj % 3, (vj + vk + 9) % 10]", "x[0:+3, 0:+10]");
  Schedule s(turning);
  EXPECT_THROW(cache_padding(s, {"sum"}, "x", space::global), Refusal) << "the copy would be 10 times as large";
}

TEST(CachePadding, RefusesASecondRead) {
  Schedule s(convolution(fmt::format("{} * x[vi, vj]", padded), "x[vi, vj + vk - 1], x[vi, vj]"));
  expect_refused(
      s, [&] { cache_padding(s, {"sum"}, "x", space::global); }, "cache_padding", 1, "cache_padding_refused_1");
}

TEST(CachePadding, RefusesAnIndexThatIsNoSum) {
  Schedule s(convolution("select(vj * vk < 10, x[vi, vj * vk if vj * vk < 10], 0.0f32)", "x[vi, vj * vk]"));
  expect_refused(
      s, [&] { cache_padding(s, {"sum"}, "x", space::global); }, "cache_padding", 2, "cache_padding_refused_2");
}

TEST(CachePadding, RefusesAConditionOnSomethingElse) {
  Schedule s(convolution("select(vj < vk + 3, x[vi, vj], 0.0f32)", "x[vi, vj]"));
  expect_refused(
      s, [&] { cache_padding(s, {"sum"}, "x", space::global); }, "cache_padding", 3, "cache_padding_refused_3");
}

TEST(CachePadding, RefusesABufferWrittenInTheNest) {
  Schedule s(parse_func(R"(func shifted(x: f32[10], out: f32[10]) stage begin {
  block root() reads x[..] writes x[..], out[..] {
    for j in [0, 10) {
      block read(space vj in [0, 10) = j) reads x[vj - 1] writes out[vj] {
        out[vj] = select(0 < vj, x[vj - 1 if 0 < vj], 0.0f32)
      }
      block write(space vj in [0, 10) = j) writes x[vj] {
        x[vj] = 1.0f32
      }
    }
  }
}
)"));
  expect_refused(
      s, [&] { cache_padding(s, {"read"}, "x", space::global); }, "cache_padding", 4, "cache_padding_refused_4");
}

}  // namespace
}  // namespace lathe::testing
