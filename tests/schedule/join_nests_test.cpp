#include "schedule/auto/join_nests.h"

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A first cache of 1 KiB, and one of `own` bytes for each core.
Device with_own_cache(std::int64_t own) {
  Device device = wide();
  device.caches = {{1 << 10, 64, 8, false}, {own, 64, 8, false}, {1 << 26, 64, 16, true}};
  return device;
}

bool joins(const Func& func, const Device& device = with_own_cache(1 << 20)) {
  ScheduleLog log;
  const Func scheduled = auto_schedule(func, device, &log);
  expect_same(func, scheduled);
  bool found = false;
  for (const std::string& decision : log.decisions)
    found |= decision.starts_with("compute s and t together") || decision.starts_with("join s.0 and t.0") ||
             decision.starts_with("join s and t, which share terms");
  return found;
}

/// s and t, each an output of one expression of x and y, rows of `columns`.
Func two_outputs(const std::string& s, const std::string& s_reads, const std::string& t, const std::string& t_reads,
                 int columns = 40) {
  return parse_func(fmt::format(
      R"(func two(x: f32[40, {0}], y: f32[40, {0}], s: f32[40, {0}], t: f32[40, {0}]) stage begin {{
  block root() reads x[..], y[..], s[..] writes s[..], t[..] {{
    for i in [0, 40) {{ for j in [0, {0}) {{
      block s(space vi in [0, 40) = i, space vj in [0, {0}) = j) reads {2} writes s[vi, vj] {{ s[vi, vj] = {1} }} }} }}
    for i1 in [0, 40) {{ for j1 in [0, {0}) {{
      block t(space wi in [0, 40) = i1, space wj in [0, {0}) = j1) reads {4} writes t[wi, wj] {{
        t[wi, wj] = {3} }} }} }} }} }})",
      columns, s, s_reads, t, t_reads));
}

/// s, the sums of rows (or columns) of x, and t, those of x + s.
Func two_sums(int rows, int columns, bool of_rows) {
  const auto sum = [&](const std::string& name, const std::string& i, const std::string& k, const std::string& term,
                       const std::string& reads) {
    return fmt::format(
        R"(    for {1} in [0, {3}) {{ for {2} in [0, {4}) {{
      block {0}(space v{1} in [0, {3}) = {1}, reduce v{2} in [0, {4}) = {2}) reads {6}{0}[v{1}] writes {0}[v{1}] {{
        reducer (lhs_{0}: f32) (rhs_{0}: f32) {{lhs_{0} + rhs_{0}}} identity {{0.0f32}}
        init {{ {0}[v{1}] = 0.0f32 }}
        let l_{0}: f32 = {0}[v{1}]
        let r_{0}: f32 = {5}
        {0}[v{1}] = l_{0} + r_{0} }} }} }}
)",
        name, i, k, of_rows ? rows : columns, of_rows ? columns : rows, term, reads);
  };
  const std::string first = of_rows ? "x[vi, vk]" : "x[vk, vi]", second = of_rows ? "x[vj, vl]" : "x[vl, vj]";
  return parse_func(
      fmt::format("func sums(x: f32[{0}, {1}], s: f32[{2}], t: f32[{2}]) stage begin {{\n"
                  "  block root() reads x[..], s[..], t[..] writes s[..], t[..] {{\n{3}{4} }} }}",
                  rows, columns, of_rows ? rows : columns, sum("s", "i", "k", first, first + ", "),
                  sum("t", "j", "l", second + " + s[vj]", second + ", s[vj], ")));
}

TEST(JoinNests, ComputesOutputsThatShareLoadsTogether) {
  const Func func =
      two_outputs("x[vi, vj] + y[vi, vj]", "x[vi, vj], y[vi, vj]", "x[wi, wj] * s[wi, wj]", "x[wi, wj], s[wi, wj]");
  EXPECT_TRUE(joins(func));
  expect_golden(print(auto_schedule(func, wide())), "auto_together.tir");
}

TEST(JoinNests, LeavesApartWhatSharesNoElement) {
  EXPECT_FALSE(joins(two_outputs("x[vi, vj]", "x[vi, vj]", "y[wi, wj] * 2.0f32", "y[wi, wj]")));
  EXPECT_FALSE(joins(two_outputs("x[vi, vj]", "x[vi, vj]", "x[wi, 39 - wj]", "x[wi, 39 - wj]")));
  EXPECT_FALSE(joins(two_outputs("x[vi, vj]", "x[vi, vj]", "x[wj, wi] + x[wi, wj]", "x[wj, wi], x[wi, wj]")))
      << "a transpose is laid out by squares";
  EXPECT_FALSE(joins(two_outputs("x[vi, vj]", "x[vi, vj]", "s[wi, 39 - wj] + x[wi, wj]", "s[wi, 39 - wj], x[wi, wj]")))
      << "another element of what the first writes";
}

TEST(JoinNests, GivesReductionsOfTheSameRowsOneLoop) {
  const Func func = two_sums(40, 64, true);
  EXPECT_TRUE(joins(func));
  expect_golden(print(auto_schedule(func, with_own_cache(1 << 20))), "auto_shared_rows.tir");
}

TEST(JoinNests, LeavesRowsApartThatAreShortOrLieAcross) {
  EXPECT_FALSE(joins(two_sums(200, 63, true))) << "rows of less than four vectors run side by side";
  EXPECT_FALSE(joins(two_sums(40, 64, false))) << "vectors run along what would be the outer loop";
  EXPECT_FALSE(joins(two_sums(3, 64, true))) << "all of it fits the first cache";
  EXPECT_FALSE(joins(two_sums(40, 640, true), with_own_cache(1 << 12))) << "a row has left when it is read again";
}

/// Sums and maxima of groups of x, whose elements lie behind each other by two digits.
Func sums_and_maxima(bool waits) {
  return parse_func(fmt::format(
      R"(func sums(x: f32[4, 640], s: f32[32], t: f32[32]) stage begin {{
  block root() reads x[..], s[..], t[..] writes s[..], t[..] {{
    for i in [0, 32) {{ for k in [0, 80) {{
      block s(space vi in [0, 32) = i, reduce vk in [0, 80) = k) reads x[..], s[vi] writes s[vi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ s[vi] = 0.0f32 }}
        let l: f32 = s[vi]
        let r: f32 = x[vi // 8, vi % 8 * 80 + vk]
        s[vi] = l + r }} }} }}
    for i1 in [0, 32) {{ for k1 in [0, 80) {{
      block t(space vi1 in [0, 32) = i1, reduce vk1 in [0, 80) = k1) reads x[..], {0}t[vi1] writes t[vi1] {{
        reducer (lhs1: f32) (rhs1: f32) {{max(lhs1, rhs1)}} identity {{-inf(f32)}}
        init {{ t[vi1] = -inf(f32) }}
        let l1: f32 = t[vi1]
        let r1: f32 = x[vi1 // 8, vi1 % 8 * 80 + vk1]{1}
        t[vi1] = max(l1, r1) }} }} }} }} }})",
      waits ? "s[vi1], " : "", waits ? " - s[vi1]" : ""));
}

TEST(JoinNests, GivesReductionsOfTheSameTermsOneLoop) {
  EXPECT_TRUE(joins(sums_and_maxima(false)));
  EXPECT_FALSE(joins(sums_and_maxima(true))) << "one waits for the other";
}

TEST(JoinNests, LooksAtNestsUnderALoopAlongAReductionOnce) {
  std::string text = R"(func both(x: f32[4, 8, 256], s: f32[8], t: f32[8]) stage begin {
  block root() reads x[..], s[..], t[..] writes s[..], t[..] {
    for i in [0, 4) {
      for j in [0, 8) { for k in [0, 256) {
        block s(reduce vi in [0, 4) = i, space vj in [0, 8) = j, reduce vk in [0, 256) = k)
            reads x[vi, vj, vk], s[vj] writes s[vj] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init { s[vj] = 0.0f32 }
          let l: f32 = s[vj]
          let r: f32 = x[vi, vj, vk]
          s[vj] = l + r } } }
      for j1 in [0, 8) { for k1 in [0, 256) {
        block t(reduce vi1 in [0, 4) = i, space vj1 in [0, 8) = j1, reduce vk1 in [0, 256) = k1)
            reads x[vi1, vj1, vk1], t[vj1] writes t[vj1] {
          reducer (lhs1: f32) (rhs1: f32) {lhs1 + rhs1} identity {0.0f32}
          init { t[vj1] = 0.0f32 }
          let l1: f32 = t[vj1]
          let r1: f32 = x[vi1, vj1, vk1] * 2.0f32
          t[vj1] = l1 + r1 } } }
    } } })";
  EXPECT_TRUE(joins(parse_func(text)));
}

}  // namespace
}  // namespace lathe::testing
