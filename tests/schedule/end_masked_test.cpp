/// end_masked, and the rules that apply it and feed it: rows that end where data says.
#include "schedule/primitives/end_masked.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums of rows of at most 8 elements, those for which `mask` holds.
Func rows(const std::string& mask, const std::string& term = "x[vi, vk]", const std::string& made = "") {
  return parse_func(fmt::format(R"(func rows(n: i64[9], x: f32[8, 8], w: f32[8], out: f32[8]) stage begin {{
  block root() reads n[..], x[..], w[..], out[..] writes out[..] {{
    alloc p: f32[8, 8]
    {}
    for i in [0, 8) {{ for k in [0, 8) {{
      block sum(space vi in [0, 8) = i, reduce vk in [0, 8) = k)
          reads out[vi], n[..], x[vi, vk], w[vk], p[vi, vk] writes out[vi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi] = 0.0f32 }}
        let l: f32 = out[vi]
        let r: f32 = select({}, {}, 0.0f32)
        out[vi] = l + r
      }}
    }} }}
  }}
}}
)",
                                made, mask, term));
}

/// What p holds, beside an assertion on it.
std::string checked(const std::string& assertion) {
  return fmt::format(R"(for a in [0, 8) {{ for b in [0, 8) {{
      block p(space va in [0, 8) = a, space vb in [0, 8) = b) reads n[va], x[va, vb] writes p[va, vb] {{
        assert {}, "p|axis 0|index", vb
        p[va, vb] = x[va, vb] * 2.0f32
      }}
    }} }})",
                     assertion);
}

std::string extent_of(const Func& func, const std::string& loop) {
  const std::string text = print(func), head = "for " + loop + " in [0, ";
  const size_t at = text.find(head);
  return at == std::string::npos ? "" : text.substr(at + head.size(), text.find(") {", at) - at - head.size());
}

void expect_ends(const Func& before, const std::string& extent) {
  Schedule s(before);
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  end_masked(s, {"sum"}, s.loop("sum", 1));
  expect_same(before, s.func());
  EXPECT_EQ(extent_of(s.func(), "k"), extent);
}

TEST(EndMasked, EndsWhereTheMaskDoes) {
  const Func before = rows("vk < n[vi]");
  Schedule s(before);
  const auto [ko, ki] = split(s, s.loop("sum", 1), 4);
  decompose_reduction(s, {"sum"}, ko);
  end_masked(s, {"sum"}, ko);
  expect_scheduled(s, before, "end_masked");
}

TEST(EndMasked, EndsByWhatMasksSayInSeveralWays) {
  expect_ends(rows("vk <= vi"), "i + 1");
  expect_ends(rows("vk < n[vi]"), "max(min(n[i], 8), 0)");
  expect_ends(rows("n[vi] > vk"), "max(min(n[i], 8), 0)");
  expect_ends(rows("vk + 2 <= n[vi + 1] - n[vi]"), "max(min(n[i + 1] - n[i] - 2, 7) + 1, 0)");
  expect_ends(rows("vk < n[vi] && x[vi, vk] > 0.0f32"), "max(min(n[i], 8), 0)");
  expect_ends(rows("vk < n[vi] && vk < 5"), "max(min(min(n[i], 8), 5), 0)");
  expect_ends(rows("vk < n[vi] || vk < 2"), "max(min(n[i], 8), 2)");
}

/// Loops within go on to the last row's end.
TEST(EndMasked, RelaxesMasksOverTheLoopsWithin) {
  const Func before = rows("vk <= vi");
  Schedule s(before);
  const auto [io, ii] = split(s, s.loop("sum", 0), 4);
  reorder(s, {io, s.loop("sum", 2), ii});
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  end_masked(s, {"sum"}, s.loop("sum", 1));
  expect_same(before, s.func());
  EXPECT_EQ(extent_of(s.func(), "k"), "io * 4 + 4");
}

TEST(EndMasked, MakesUnrolledStepsALoop) {
  const Func before = rows("vk < n[vi]");
  Schedule s(before);
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  unroll(s, s.loop("sum", 1));
  end_masked(s, {"sum"}, s.loop("sum", 1));
  expect_same(before, s.func());
  EXPECT_EQ(extent_of(s.func(), "k"), "max(min(n[i], 8), 0)");
}

TEST(EndMasked, EndsWhatFeedsTheStepsToo) {
  const Func before = rows("vk < n[vi]", "p[vi, vk]", checked("n[va] <= vb || x[va, vb] < 100.0f32"));
  Schedule s(before);
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  compute_at(s, {"p"}, s.loop("sum", 1));
  end_masked(s, {"sum"}, s.loop("sum", 1));
  expect_scheduled(s, before, "end_masked_fed");
}

void expect_kept(Schedule& s, const LoopRef& loop, int condition, const std::string& suffix = "") {
  expect_refused(
      s, [&] { end_masked(s, {"sum"}, loop); }, "end_masked", condition,
      fmt::format("end_masked_refused_{}{}", condition, suffix));
}

void expect_row_kept(const Func& func, int condition, const std::string& suffix = "") {
  Schedule s(func);
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  expect_kept(s, s.loop("sum", 1), condition, suffix);
}

TEST(EndMasked, RefusesAReductionThatStartsBelowTheLoop) {
  Schedule s(rows("vk < n[vi]"));
  expect_kept(s, s.loop("sum", 1), 1);
}

TEST(EndMasked, RefusesAnAssertionThatMayFailBehindTheEnd) {
  Schedule s(rows("vk < n[vi]", "p[vi, vk]", checked("x[va, vb] < 100.0f32")));
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  compute_at(s, {"p"}, s.loop("sum", 1));
  expect_kept(s, s.loop("sum", 1), 2);
}

TEST(EndMasked, RefusesTermsThatMaskedOnesMayAddTo) {
  expect_row_kept(rows("x[vi, vk] > 0.0f32"), 4, "_data");
  expect_row_kept(parse_func(R"(func rows(n: i64[8], x: f32[8, 8], w: f32[8], out: f32[8]) stage begin {
  block root() reads n[..], x[..], w[..], out[..] writes out[..] {
    for i in [0, 8) { for k in [0, 8) {
      block sum(space vi in [0, 8) = i, reduce vk in [0, 8) = k) reads out[vi], n[vi], x[vi, vk], w[vk] writes out[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vi] = 0.0f32 }
        let l: f32 = out[vi]
        let r: f32 = select(vk < n[vi], x[vi, vk], 0.0f32) * w[vk]
        out[vi] = l + r } } } } })"),
                  4, "_finite");
}

TEST(EndMasked, RefusesMasksThatBeginOrComeAgain) {
  expect_row_kept(rows("vk >= n[vi]"), 5, "_begins");
  expect_row_kept(rows("vk * vk < n[vi]"), 5, "_square");
  // n[vi] + 3 may wrap where n[vi] is not far from the greatest integer.
  expect_row_kept(rows("vk - 3 < n[vi]"), 5, "_wraps");
}

/// n[vi] + vj, relaxed to n[vi] + 7, may wrap where n[vi] + 0 does not.
TEST(EndMasked, RefusesSumsThatMayWrapOnceRelaxed) {
  for (const char* mask : {"vk < n[vi] + vj", "vk < n[vi] - vj", "n[vi] + vk < 8"}) {
    const Func before = parse_func(fmt::format(R"(func rows(n: i64[8], x: f32[8, 8], out: f32[8, 8]) stage begin {{
  block root() reads n[..], x[..] writes out[..] {{
    for i in [0, 8) {{ for k in [0, 8) {{ for j in [0, 8) {{
      block sum(space vi in [0, 8) = i, space vj in [0, 8) = j, reduce vk in [0, 8) = k)
          reads out[vi, vj], n[vi], x[vi, vk] writes out[vi, vj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi, vj] = 0.0f32 }}
        let l: f32 = out[vi, vj]
        let r: f32 = select({}, x[vi, vk], 0.0f32)
        out[vi, vj] = l + r }} }} }} }} }} }})",
                                               mask));
    Schedule s(before);
    decompose_reduction(s, {"sum"}, s.loop("sum", 1));
    EXPECT_THROW(end_masked(s, {"sum"}, s.loop("sum", 1)), lathe::Refusal) << mask;
  }
}

TEST(EndMasked, RefusesALengthThatIsNotThereBeforeTheLoop) {
  Schedule s(rows("vk < n[vi + 1]"));
  const auto [io, ii] = split(s, s.loop("sum", 0), 3);
  decompose_reduction(s, {"sum"}, s.loop("sum", 2));
  expect_kept(s, s.loop("sum", 2), 6);
}

TEST(EndMasked, KeepsLoopsAroundFromRunningPastWhatSaysTheEnd) {
  const Func before = rows("vk < n[vi]");
  Schedule s(before);
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  end_masked(s, {"sum"}, s.loop("sum", 1));
  expect_refused(s, [&] { split(s, s.loop("sum", 0), 3); }, "split", 3, "split_refused_3_ended");
  split(s, s.loop("sum", 0), 4);
  expect_same(before, s.func());
}

TEST(EndMasked, LeavesNoIterationToFillAheadOf) {
  Schedule s(rows("vk < n[vi]", "p[vi, vk]", checked("n[va] <= vb || x[va, vb] < 100.0f32")));
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  compute_at(s, {"p"}, s.loop("sum", 1));
  end_masked(s, {"sum"}, s.loop("sum", 1));
  EXPECT_THROW(double_buffer(s, {"p"}, s.loop("sum", 1)), lathe::Refusal);
}

/// Rows of x, one behind the other, each at most `most` long.
Func ragged(const std::string& most) {
  return parse_func(fmt::format(R"(func ragged(n: i64[9], x: f32[200], out: f32[8]) stage begin {{
  block root() reads n[..], x[..], out[..] writes out[..] {{
    for i in [0, 8) {{ for k in [0, {0}) {{
      block sum(space vi in [0, 8) = i, reduce vk in [0, {0}) = k) reads out[vi], n[vi:+2], x[vk] writes out[vi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi] = 0.0f32 }}
        let l: f32 = out[vi]
        let r: f32 = select(vk < n[vi + 1] - n[vi], x[vk], 0.0f32)
        out[vi] = l + r }} }} }} }} }})",
                                most));
}

bool ends_rows(const Func& before) {
  ScheduleLog log;
  expect_same_results(before, auto_schedule(before, narrow(), &log));
  return std::any_of(log.decisions.begin(), log.decisions.end(),
                     [](const std::string& decision) { return decision.rfind("end ", 0) == 0; });
}

TEST(EndRagged, EndsLongRowsAndNoFewSteps) {
  EXPECT_TRUE(ends_rows(ragged("200")));
  EXPECT_FALSE(ends_rows(ragged("3")));
}

}  // namespace
}  // namespace lathe::testing
