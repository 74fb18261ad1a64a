/// compute_apart, and the rules that apply it: functions in the bodies of other operators, and of what a table holds.
#include "schedule/primitives/compute_apart.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

using Iters = std::vector<size_t>;

/// A product of n x 6 by 6 x 5 elements of which something is computed first.
Func product(const std::string& term, const std::string& where = "", int rows = 4) {
  return parse_func(
      fmt::format(R"(func product(a: f32[{2}, 6], b: f32[6, 5], q: i64[6, 5], out: f32[{2}, 5]) stage begin {{
  block root() reads a[..], b[..], q[..], out[..] writes out[..] {{
    for i in [0, {2}) {{ for j in [0, 5) {{ for k in [0, 6) {{
      block sum(space vi in [0, {2}) = i, space vj in [0, 5) = j, reduce vk in [0, 6) = k) {1}
          reads out[vi, vj], a[..], b[..], q[vk, vj] writes out[vi, vj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi, vj] = 0.0f32 }}
        let l: f32 = out[vi, vj]
        let r: f32 = {0}
        out[vi, vj] = l + r
      }}
    }} }} }}
  }}
}}
)",
                  term, where, rows));
}

TEST(ComputeApart, EvaluatesOnceWhatHangsOnSomeIters) {
  const Func before = product("a[vi, vk] * sqrt(b[vk, vj] * b[vk, vj] + 1.0f32)");
  Schedule s(before);
  EXPECT_EQ(compute_apart(s, {"sum"}, Iters{2, 1}).size(), 1u);
  expect_scheduled(s, before, "compute_apart");
}

TEST(ComputeApart, TakesTheLargestPartsAndAlikeOnesOnce) {
  const Func before =
      product("sqrt(a[vi, vk]) * (1.0f32 / b[vk, vj]) + sqrt(a[vi, vk]) / exp(b[vk, vj] - 2.5f32) + abs(b[vk, vj])");
  Schedule s(before);
  EXPECT_EQ(compute_apart(s, {"sum"}, Iters{0, 2}).size(), 1u);
  EXPECT_EQ(compute_apart(s, {"sum"}, Iters{1, 2}).size(), 2u);
  expect_same(before, s.func());
}

TEST(ComputeApart, EvaluatesOnceForEachElement) {
  const Func before = product("a[vi, vk] * sqrt(abs(b[min(max(q[vk, vj], 0), 5), vj]) + 2.5f32)");
  Schedule s(before);
  EXPECT_EQ(compute_apart(s, {"sum"}, "b").size(), 1u);
  expect_scheduled(s, before, "compute_apart_elements");
}

void expect_kept(Schedule& s, const std::vector<size_t>& iters, int condition, const std::string& suffix) {
  expect_refused(
      s, [&] { compute_apart(s, {"sum"}, iters); }, "compute_apart", condition,
      fmt::format("compute_apart_refused_{}_{}", condition, suffix));
}

TEST(ComputeApart, RefusesWhatHasNoSuchParts) {
  Schedule s(product("a[vi, vk] * b[vk, vj]"));
  expect_kept(s, {1, 2}, 1, "loads");
  expect_kept(s, {7}, 1, "iter");
  expect_kept(s, {1, 1}, 1, "twice");
  expect_refused(s, [&] { compute_apart(s, {"sum"}, "none"); }, "compute_apart", 1, "compute_apart_refused_1_buffer");
  Schedule masked(product("a[vi, vk] * exp(b[vk, vj if vj < vk])"));
  expect_kept(masked, {1, 2}, 1, "masked");
  Schedule two(product("abs(a[vi, vk] * b[vk, vj])"));
  expect_refused(two, [&] { compute_apart(two, {"sum"}, "b"); }, "compute_apart", 1, "compute_apart_refused_1_two");
  Schedule beside(product("a[vi, vk] * exp(b[vk, vj])", "where i < 3"));
  expect_kept(beside, {1, 2}, 1, "predicate");
}

TEST(ComputeApart, RefusesElementsThatMayLieElsewhere) {
  Schedule s(product("a[vi, vk] * exp(b[vk, q[vk, vj]])"));
  expect_kept(s, {1, 2}, 3, "data");
}

TEST(ComputeApart, RefusesWhatTheNestWrites) {
  Schedule s(parse_func(R"(func rows(x: f32[4, 6], out: f32[4, 6]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc p: f32[4]
    for i in [0, 4) {
      block first(space vi in [0, 4) = i) reads x[vi, 0] writes p[vi] { p[vi] = x[vi, 0] * 2.0f32 }
      for j in [0, 6) {
        block sum(space wi in [0, 4) = i, space wj in [0, 6) = j) reads x[wi, wj], p[wi] writes out[wi, wj] {
          out[wi, wj] = x[wi, wj] * exp(p[wi])
        }
      }
    }
  }
})"));
  expect_kept(s, {0}, 2, "written");
}

bool decides(const Func& before, const std::string& decision) {
  ScheduleLog log;
  expect_same_results(before, auto_schedule(before, narrow(), &log));
  return std::any_of(log.decisions.begin(), log.decisions.end(),
                     [&](const std::string& other) { return other.rfind(decision, 0) == 0; });
}

TEST(PartFunctions, WhereManyResultsShareThem) {
  const char* term = "a[vi, vk] * sqrt(abs(b[vk, vj] - 2.5f32)) / exp2(b[vk, vj])";
  EXPECT_TRUE(decides(product(term, "", 40), "compute what sum does to b"));
  EXPECT_FALSE(decides(product(term, "", 2), "compute what sum does to b"));
  EXPECT_TRUE(decides(product("a[vi, vk] * exp2(b[vk, vj] - b[vk, 0])", "", 40), "compute functions of 2 axes"));
}

}  // namespace
}  // namespace lathe::testing
