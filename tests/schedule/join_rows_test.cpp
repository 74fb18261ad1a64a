#include "schedule/primitives/join_rows.h"

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/vectorize.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// sums[f, i, j] = sum of x[c, i, j + s] * w[f, c, s] over rows of x that are `width` long, and out = max(sums, 0).
Func sums_of_rows(int filters, int rows, int row, int width, int channels = 1) {
  return parse_func(fmt::format(
      R"(func rows(x: f32[{5}, {1}, {3}], w: f32[{0}, {5}, {4}], out: f32[{0}, {1}, {2}]) stage begin {{
  block root() reads x[..], w[..] writes out[..] {{
    alloc sums: f32[{0}, {1}, {2}]
    alloc copy: f32[{5}, {1}, {3}]
    for d in [0, {5}) {{ for h in [0, {1}) {{ for g in [0, {3}) {{
      block copy(space vd in [0, {5}) = d, space vh in [0, {1}) = h, space vg in [0, {3}) = g)
          reads x[vd, vh, vg] writes copy[vd, vh, vg]
      {{ copy[vd, vh, vg] = x[vd, vh, vg] }}
    }} }} }}
    for f in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {2}) {{ for c in [0, {5}) {{ for s in [0, {4}) {{
      block product(space vf in [0, {0}) = f, space vi in [0, {1}) = i, space vj in [0, {2}) = j,
                    reduce vc in [0, {5}) = c, reduce vs in [0, {4}) = s)
          reads sums[vf, vi, vj], w[vf, vc, vs], copy[..] writes sums[vf, vi, vj]
      {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ sums[vf, vi, vj] = 0.0f32 }}
        let sum: f32 = sums[vf, vi, vj]
        let term: f32 = w[vf, vc, vs] * copy[vc, vi, vj + vs]
        sums[vf, vi, vj] = sum + term
      }}
    }} }} }} }} }}
    for f1 in [0, {0}) {{ for i1 in [0, {1}) {{ for j1 in [0, {2}) {{
      block store(space uf in [0, {0}) = f1, space ui in [0, {1}) = i1, space uj in [0, {2}) = j1)
          reads sums[uf, ui, uj] writes out[uf, ui, uj]
      {{ out[uf, ui, uj] = max(sums[uf, ui, uj], 0.0f32) }}
    }} }} }}
  }}
}}
)",
      filters, rows, row, width, width - row + 1, channels));
}

LayoutMap map(const std::string& text) {
  return parse_layout_map(text);
}

TEST(JoinRows, CrossesFromARowToTheNext) {
  const Func before = sums_of_rows(2, 3, 4, 4);
  Schedule s(before);
  const LoopRef product = join_rows(s, s.loop("product", 1), s.loop("product", 2), 4);
  EXPECT_EQ(product.variable->name, "i_j");
  const LoopRef store = join_rows(s, s.loop("store", 1), s.loop("store", 2), 4);
  vectorize(s, split(s, store, 8).second);
  expect_scheduled(s, before, "join_rows");
}

TEST(JoinRows, PassesOverTheGapsBetweenRows) {
  const Func before = sums_of_rows(2, 3, 4, 6);
  Schedule s(before);
  transform_layout(s, {"product"}, "copy", map("d, i, j -> d, i * 6 + j"));
  transform_layout(s, {"product"}, "sums", map("f, i, j -> f, i * 6 + j"));
  join_rows(s, s.loop("product", 1), s.loop("product", 2), 6);
  expect_scheduled(s, before, "join_rows_gaps");
}

TEST(JoinRows, Refuses) {
  const Func func = sums_of_rows(2, 3, 4, 6);
  const auto refuse = [&](const std::string& name, int condition, std::int64_t pitch, const std::string& copy,
                          const std::string& sums) {
    Schedule s(func);
    if (!copy.empty()) transform_layout(s, {"product"}, "copy", map(copy));
    if (!sums.empty()) transform_layout(s, {"product"}, "sums", map(sums));
    expect_refused(
        s, [&] { join_rows(s, s.loop("product", 1), s.loop("product", 2), pitch); }, "join_rows", condition,
        "join_rows_refused_" + name);
  };
  const std::string copy = "d, i, j -> d, i * 6 + j", sums = "f, i, j -> f, i * 6 + j";
  refuse("3", 3, 3, copy, sums);
  refuse("4", 4, 6, copy, "");
  refuse("4_pitch", 4, 7, copy, sums);
  refuse("5", 5, 6, "", sums);
  refuse("6", 6, 7, "d, i, j -> d, i * 7 + j", "f, i, j -> f, i * 7 + j");
  Schedule s(func);
  expect_refused(
      s, [&] { join_rows(s, s.loop("product", 1), s.loop("product", 4), 6); }, "join_rows", 2, "join_rows_refused_2");
  split(s, s.loop("product", 2), 2);
  expect_refused(
      s, [&] { join_rows(s, s.loop("product", 1), s.loop("product", 2), 6); }, "join_rows", 1, "join_rows_refused_1");
}

TEST(JoinRows, AreJoinedWhereTheyLeaveLanesIdle) {
  const auto decisions = [](const Func& func) { return decisions_on(func, wide(), "product"); };
  EXPECT_NE(decisions(sums_of_rows(16, 10, 5, 5, 12)).find("join rows of product, 5 apart\n"), std::string::npos);
  EXPECT_NE(decisions(sums_of_rows(33, 9, 18, 20, 12)).find("join rows of product, 20 apart\n"), std::string::npos);
  EXPECT_EQ(decisions(sums_of_rows(33, 9, 16, 18, 12)).find("join"), std::string::npos) << "rows fill vectors";
  EXPECT_EQ(decisions(sums_of_rows(33, 9, 5, 18, 12)).find("join"), std::string::npos) << "most of it would be gaps";
  expect_golden(print(auto_schedule(sums_of_rows(16, 10, 5, 5, 12), wide())), "auto_joined.tir");
  expect_golden(print(auto_schedule(sums_of_rows(33, 9, 18, 20, 12), wide())), "auto_joined_gaps.tir");
}

}  // namespace
}  // namespace lathe::testing
