#include <fmt/format.h>

#include "ir/text/parse.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// s[i] or s[] = sum of a[`kept`] * `other`, over `n` x `m` elements; i is reduced where there is but one result.
Func sums(const std::string& kept, const std::string& other, bool one, int n, int m) {
  return parse_func(fmt::format(R"(func sums(a: f32[{0}, {1}], b: f32[{1}, {0}], s: f32[{2}]) stage begin {{
  for i in [0, {0}) {{ for j in [0, {1}) {{
    block sum({3} vi in [0, {0}) = i, reduce vj in [0, {1}) = j) reads a[{4}], {5}, s[{6}] writes s[{6}] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ s[{6}] = 0.0f32 }}
      let l: f32 = s[{6}]
      let r: f32 = a[{4}] * {5}
      s[{6}] = l + r }} }} }} }})",
                                n, m, one ? "" : fmt::format("{}", n), one ? "reduce" : "space", kept, other,
                                one ? "" : "vi"));
}

bool turns(const Func& func, const std::string& block, const std::string& array) {
  return says(decisions_on(func, wide(), block), "turn " + array + " around once for " + block);
}

TEST(TurnCrossed, CopiesWhatLiesAcrossAnotherOperand) {
  for (const bool one : {false, true}) {
    for (const auto& [n, m] : {std::pair(33, 40), {8, 8}, {100, 9}, {9, 100}}) {
      const Func func = sums("vi, vj", "b[vj, vi]", one, n, m);
      EXPECT_TRUE(turns(func, "sum", "b")) << decisions_on(func, wide(), "sum");
      expect_scheduled_well(func);
    }
  }
  const Func backwards = sums("vi, 39 - vj", "b[vj, vi]", true, 33, 40);
  EXPECT_TRUE(turns(backwards, "sum", "b")) << decisions_on(backwards, wide(), "sum");
  expect_scheduled_well(backwards);
  const Func itself = sums("vi, vj", "a[vj, vi]", true, 40, 40);
  EXPECT_TRUE(turns(itself, "sum", "a")) << decisions_on(itself, wide(), "sum");
  expect_scheduled_well(itself);
}

TEST(TurnCrossed, LeavesWhatLiesAlongTheOtherOperand) {
  EXPECT_FALSE(turns(sums("vi, vj", "a[vi, vj]", true, 33, 40), "sum", "a"));
  EXPECT_FALSE(turns(sums("vi, vj", "b[vj, vi]", true, 7, 40), "sum", "b")) << "no square fits";
  EXPECT_FALSE(turns(sums("vi, vj", "b[vj, vi]", true, 40, 7), "sum", "b")) << "no square fits";
  EXPECT_FALSE(turns(sums("vi, vj", "b[vj, 0]", true, 33, 40), "sum", "b"));
}

TEST(TurnCrossed, HasAllLieAsMostDo) {
  // Two of three arrays lie along i.
  const Func func = parse_func(R"(func sums(a: f32[24, 40], b: f32[40, 24], c: f32[40, 24], s: f32[24]) stage begin {
  for i in [0, 24) { for j in [0, 40) {
    block sum(space vi in [0, 24) = i, reduce vj in [0, 40) = j)
        reads a[vi, vj], b[vj, vi], c[vj, vi], s[vi] writes s[vi] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { s[vi] = 0.0f32 }
      let l: f32 = s[vi]
      let r: f32 = a[vi, vj] * b[vj, vi] + c[vj, vi]
      s[vi] = l + r } } } })");
  EXPECT_TRUE(turns(func, "sum", "a")) << decisions_on(func, wide(), "sum");
  EXPECT_FALSE(turns(func, "sum", "b"));
  expect_scheduled_well(func);
}

TEST(TurnCrossed, LeavesContractionsAlone) {
  // Each element of both is read several times.
  const Func product = parse_func(R"(func sums(a: f32[20, 24, 16], b: f32[30, 16, 24], s: f32[20, 30]) stage begin {
  for i in [0, 20) { for j in [0, 30) { for k in [0, 24) { for l in [0, 16) {
    block sum(space vi in [0, 20) = i, space vj in [0, 30) = j, reduce vk in [0, 24) = k, reduce vl in [0, 16) = l)
        reads a[vi, vk, vl], b[vj, vl, vk], s[vi, vj] writes s[vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { s[vi, vj] = 0.0f32 }
      let x: f32 = s[vi, vj]
      let y: f32 = a[vi, vk, vl] * b[vj, vl, vk]
      s[vi, vj] = x + y } } } } } })");
  EXPECT_EQ(decisions_on(product, wide(), "sum").find("around once"), std::string::npos);
  expect_scheduled_well(product);
}

/// sum over `loops`, which bind `iters`, of `term` into s[`result`] of `shape`; it reads `reads` of `params`.
Func summed(const std::string& params, const std::string& shape, const std::string& loops, const std::string& iters,
            const std::string& reads, const std::string& term, const std::string& result) {
  return parse_func(fmt::format(R"(func sums({0}, s: f32[{1}]) stage begin {{
  {2} {{
    block sum({3}) reads {4}, s[{6}] writes s[{6}] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ s[{6}] = 0.0f32 }}
      let l: f32 = s[{6}]
      let r: f32 = {5}
      s[{6}] = l + r }} }} }} }} }})",
                                params, shape, loops, iters, reads, term, result));
}

size_t turned_arrays(const Func& func) {
  const std::string decisions = decisions_on(func, wide(), "sum");
  size_t found = 0;
  for (size_t at = decisions.find("around once for sum"); at != std::string::npos;
       at = decisions.find("around once for sum", at + 1))
    ++found;
  return found;
}

TEST(TurnCrossed, TurnsEachArrayOnceTowardOneAxis) {
  // What is read backwards lies along j, and cannot be turned itself.
  const Func backwards = summed("t: f32[24, 24], u: f32[16, 24, 24], v: f32[16, 24, 24]", "16, 24",
                                "for k in [0, 16) { for j in [0, 24) { for i in [0, 24)",
                                "space vk in [0, 16) = k, space vj in [0, 24) = j, reduce vi in [0, 24) = i",
                                "t[vj, vi], u[vk, vi, 23 - vj], v[vk, vj, vi]",
                                "t[vj, vi] * u[vk, vi, 23 - vj] * v[vk, vj, vi]", "vk, vj");
  EXPECT_LE(turned_arrays(backwards), 2) << decisions_on(backwards, wide(), "sum");
  expect_scheduled_well(backwards);
}

TEST(TurnCrossed, LeavesDomainsThatDoNotBeginAtZeroAndResultsAlone) {
  const Func shifted =
      summed("a: f32[40, 40], b: f32[40, 40]", "40", "for o in [0, 1) { for j in [2, 40) { for i in [2, 40)",
             "space vo in [0, 1) = o, reduce vj in [2, 40) = j, space vi in [2, 40) = i", "a[vi, vj], b[vj, vi]",
             "a[vi, vj] * b[vj, vi]", "vi");
  EXPECT_FALSE(turns(shifted, "sum", "a") || turns(shifted, "sum", "b")) << decisions_on(shifted, wide(), "sum");
  expect_scheduled_well(shifted);
  const Func across = summed("x: f32[16, 24, 40], y: f32[16, 40, 24]", "40, 24",
                             "for i in [0, 24) { for j in [0, 40) { for k in [0, 16)",
                             "space vi in [0, 24) = i, space vj in [0, 40) = j, reduce vk in [0, 16) = k",
                             "x[vk, vi, vj], y[vk, vj, vi]", "x[vk, vi, vj] * y[vk, vj, vi]", "vj, vi");
  EXPECT_FALSE(turns(across, "sum", "s"));
  EXPECT_EQ(turned_arrays(across), 1) << decisions_on(across, wide(), "sum");
  expect_scheduled_well(across);
}

TEST(TurnCrossed, CopiesNoMoreThanIsReadOfSeveralPlaces) {
  const auto of = [](int slices) {
    return summed(fmt::format("a: f32[{}, 24, 24]", slices), "1",
                  "for o in [0, 1) { for i in [0, 24) { for j in [0, 24)",
                  "space vo in [0, 1) = o, reduce vi in [0, 24) = i, reduce vj in [0, 24) = j",
                  "a[0, vi, vj], a[0, vj, vi]", "a[0, vi, vj] * a[0, vj, vi]", "vo");
  };
  EXPECT_EQ(turned_arrays(of(1)), 1) << decisions_on(of(1), wide(), "sum");
  const std::string many = decisions_on(of(50), wide(), "sum");
  EXPECT_FALSE(says(many, "turn a around once for sum")) << many;
  expect_scheduled_well(of(1));
  expect_scheduled_well(of(50));
}

TEST(TurnCrossed, CopiesASmallOperandOfTuplesThatAreTakenAgainAndAgain) {
  const Func func = parse_func(R"(func nearest(a: f32[20, 24], b: f32[30, 20], out: i64[24, 30]) stage begin {
  block root() reads a[..], b[..], out[..] writes out[..] {
    alloc best: f32[24, 30]
    for i in [0, 24) { for j in [0, 30) { for k in [0, 20) {
      block place(space vi in [0, 24) = i, space vj in [0, 30) = j, reduce vk in [0, 20) = k)
          reads a[vk, vi], b[vj, vk], best[vi, vj], out[vi, vj] writes best[vi, vj], out[vi, vj] {
        reducer (l: f32, li: i64) (r: f32, ri: i64) {
          select(l > r || (l == r && ri < li), r, l), select(l > r || (l == r && ri < li), ri, li)}
              identity {inf(f32), 9223372036854775807i64}
        init { best[vi, vj] = inf(f32) out[vi, vj] = 9223372036854775807i64 }
        let l0: f32 = best[vi, vj]
        let l1: i64 = out[vi, vj]
        let r0: f32 = a[vk, vi] - b[vj, vk]
        let r1: i64 = vk
        best[vi, vj] = select(l0 > r0 || (l0 == r0 && r1 < l1), r0, l0)
        out[vi, vj] = select(l0 > r0 || (l0 == r0 && r1 < l1), r1, l1) } } } } } })");
  const std::string decisions = decisions_on(func, wide(), "place");
  EXPECT_TRUE(says(decisions, "turn a around once for place")) << decisions;
  EXPECT_FALSE(says(decisions, "turn b around once for place")) << "back and forth: " << decisions;
  expect_scheduled_well(func);
}

/// s[i] = max of a[i, j] + b[j, i], out[i, j] = (a[i, j] + b[j, i]) - s[i].
const char* less_its_greatest = R"(func less(a: f32[24, 40], b: f32[40, 24], out: f32[24, 40]) stage begin {
  block root() reads a[..], b[..] writes out[..] {
    alloc s: f32[24]
    for i in [0, 24) { for j in [0, 40) {
      block greatest(space vi in [0, 24) = i, reduce vj in [0, 40) = j)
          reads a[vi, vj], b[vj, vi], s[vi] writes s[vi] {
        reducer (lhs: f32) (rhs: f32) {select(lhs < rhs, rhs, lhs)} identity {-inf(f32)}
        init { s[vi] = -inf(f32) }
        let x: f32 = s[vi]
        let y: f32 = a[vi, vj] + b[vj, vi]
        s[vi] = select(x < y, y, x) } } }
    for i in [0, 24) { for j in [0, 40) {
      block less(space vi in [0, 24) = i, space vj in [0, 40) = j)
          reads a[vi, vj], b[vj, vi], s[vi] writes out[vi, vj] {
        out[vi, vj] = a[vi, vj] + b[vj, vi] - s[vi] } } } } })";

TEST(TurnCrossed, SharesTheCopyWithWhatReadsTheSameElementByElement) {
  const Func func = parse_func(less_its_greatest);
  EXPECT_TRUE(turns(func, "greatest", "b")) << decisions_on(func, wide(), "greatest");
  EXPECT_TRUE(turns(func, "less", "b")) << decisions_on(func, wide(), "less");
  EXPECT_TRUE(says(decisions_on(func, wide(), "b_reindex"), "turn squares of b_reindex"))
      << decisions_on(func, wide(), "b_reindex");
  EXPECT_TRUE(says(decisions_on(func, wide(), "b_reindex_1"), "merge b_reindex_1 with b_reindex"));
  expect_scheduled_well(func);
}

/// A first cache of 1 KiB, a second one of 8.
Device small_caches() {
  Device device = wide();
  device.cores = 2;
  device.caches = {{1024, 4, 64, false}, {8192, 8, 64, false}, {1 << 20, 16, 64, true}};
  return device;
}

/// The decision on how many rows at a time are turned around; empty where there is none.
std::string nearby(const Func& func) {
  const std::string decisions = decisions_on(func, small_caches(), "b_reindex");
  const size_t place = decisions.find("turn b_reindex around for ");
  expect_scheduled_well(func);
  return place == std::string::npos ? "" : decisions.substr(place, decisions.find('\n', place) - place);
}

TEST(TurnNearby, TurnsAFewRowsAtATimeOfWhatLeavesTheCaches) {
  EXPECT_EQ(nearby(sums("vi, vj", "b[vj, vi]", false, 64, 32)), "turn b_reindex around for 16 rows at a time");
  EXPECT_EQ(nearby(sums("vi, vj", "b[vj, vi]", false, 60, 32)), "turn b_reindex around for 15 rows at a time");
  EXPECT_EQ(nearby(sums("vi, vj", "b[vj, vi]", false, 61, 32)), "turn b_reindex around for 16 rows at a time");
  EXPECT_EQ(nearby(sums("vi, vj", "b[vj, vi]", true, 64, 64)), "turn b_reindex around for 8 rows at a time")
      << "rows that are reduced as one axis";
  EXPECT_EQ(nearby(sums("vi, vj", "b[vj, vi]", true, 61, 40)), "") << "groups of rows that do not divide them";
}

TEST(TurnNearby, LeavesBlocksThatWriteNothing) {
  expect_scheduled_well(parse_func(R"(func f(a: f32[40]) stage begin {
  for i in [0, 40) { block check(space vi in [0, 40) = i) reads a[vi] { assert a[vi] >= -9.0f32, "least" } } })"));
}

TEST(TurnNearby, LeavesWhatStaysNearOrWhoseRowsAreFew) {
  EXPECT_EQ(nearby(sums("vi, vj", "b[vj, vi]", false, 32, 32)), "") << "the second cache holds it";
  EXPECT_EQ(nearby(sums("vi, vj", "b[vj, vi]", false, 16, 300)), "") << "no eight rows stay there";
}

}  // namespace
}  // namespace lathe::testing
