/// Where the automatic scheduler reads what a variance is of once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// Squares of how far elements lie from the mean of their row or, if not, of their column; `centred` also stores the
/// rows less their means.
Func spread(int rows, int columns, bool of_rows, bool centred = false) {
  const std::string text = R"(func spread(x: f32[@M, @N], q: f32[@K], c: f32[@M, @N]) stage begin {
  block root() reads x[..], q[..] writes q[..], c[..] {
    alloc s: f32[@K]
    alloc m: f32[@K]
    for i in [0, @M) { for j in [0, @N) {
      block total(@I in [0, @M) = i, @J in [0, @N) = j) reads s[@V], x[vi, vj] writes s[@V] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { s[@V] = 0.0f32 }
        let old: f32 = s[@V]
        let new: f32 = x[vi, vj]
        s[@V] = old + new } } }
    for v in [0, @K) {
      block mean(space vv in [0, @K) = v) reads s[vv] writes m[vv] { m[vv] = s[vv] / @C.0f32 } }
    for i in [0, @M) { for j in [0, @N) {
      block squares(@I in [0, @M) = i, @J in [0, @N) = j) reads q[@V], m[@V], x[vi, vj] writes q[@V] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { q[@V] = 0.0f32 }
        let old: f32 = q[@V]
        let new: f32 = (x[vi, vj] - m[@V]) * (x[vi, vj] - m[@V])
        q[@V] = old + new } } }
    for i in [0, @M) { for j in [0, @N) {
      block centre(space vi in [0, @M) = i, space vj in [0, @N) = j) reads @X writes c[vi, vj] {
        c[vi, vj] = @T } } } } })";
  std::string made = replaced_all(text, "@M", fmt::format("{}", rows));
  made = replaced_all(made, "@N", fmt::format("{}", columns));
  made = replaced_all(made, "@K", fmt::format("{}", of_rows ? rows : columns));
  made = replaced_all(made, "@C", fmt::format("{}", of_rows ? columns : rows));
  made = replaced_all(made, "@I", of_rows ? "space vi" : "reduce vi");
  made = replaced_all(made, "@J", of_rows ? "reduce vj" : "space vj");
  made = replaced_all(made, "@X", centred ? "x[vi, vj], m[@V]" : "m[@V]");
  made = replaced_all(made, "@T", centred ? "x[vi, vj] - m[@V]" : "m[@V]");
  return parse_func(replaced_all(made, "@V", of_rows ? "vi" : "vj"));
}

Device with_cores(int cores) {
  Device device = wide();
  device.cores = cores;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 8, 64, false}, {32 << 20, 16, 64, true}};
  return device;
}

/// What the schedule says of one walk; "" where it takes two.
std::string walk(const Func& func, const Device& device) {
  ScheduleLog log;
  auto_schedule(func, device, &log);
  for (const std::string& decision : log.decisions) {
    const size_t at = decision.find("by the mean of ");
    if (decision.starts_with("shift total and squares") && at != std::string::npos) return decision.substr(at + 15);
  }
  return "";
}

bool says(const Func& func, const Device& device, const std::string& what) {
  ScheduleLog log;
  auto_schedule(func, device, &log);
  return std::any_of(log.decisions.begin(), log.decisions.end(),
                     [&](const std::string& decision) { return decision.find(what) != std::string::npos; });
}

TEST(SinglePass, ShiftsRowsByAShareOfTheirTerms) {
  EXPECT_EQ(walk(spread(64, 4096, true), with_cores(1)), "64 terms");
  EXPECT_EQ(walk(spread(64, 768, true), with_cores(1)), "32 terms");
  EXPECT_EQ(walk(spread(64, 1009, true), with_cores(1)), "32 terms") << "whole vectors do not matter";
  EXPECT_EQ(walk(spread(64, 256, true), with_cores(1)), "") << "the sample costs more";
  EXPECT_EQ(walk(spread(64, 768, true, true), with_cores(1)), "") << "a row that is read again gains less";
  EXPECT_EQ(walk(spread(64, 2048, true, true), with_cores(1)), "32 terms");
  EXPECT_TRUE(says(spread(64, 4096, true), with_cores(1), "total_shifted_rf and squares_shifted_rf in one pass") ||
              says(spread(64, 4096, true), with_cores(1), "squares_shifted_rf and total_shifted_rf in one pass"));
}

TEST(SinglePass, CutsBothSumsOfALongRowAlike) {
  EXPECT_EQ(walk(spread(1, 1 << 22, true), with_cores(2)), "65536 terms");
  EXPECT_TRUE(says(spread(1, 1 << 22, true), with_cores(2), "_shifted_rf_rf in one pass"));
}

TEST(SinglePass, StreamsBothSumsOfColumns) {
  EXPECT_EQ(walk(spread(1000, 256, false), with_cores(1)), "32 terms, 8 rows at a time");
  EXPECT_EQ(walk(spread(35 * 11, 256, false), with_cores(1)), "32 terms, 7 rows at a time");
  EXPECT_EQ(walk(spread(1009, 256, false), with_cores(1)), "") << "no number of rows divides it";
  EXPECT_EQ(walk(spread(16, 64, false), with_cores(1)), "") << "stays in the first cache";
  EXPECT_EQ(walk(spread(64, 20'000, false), with_cores(1)), "32 terms, 8 rows at a time of 2048 columns");
}

TEST(SinglePass, CutsColumnsForThreadsAndForAccuracy) {
  EXPECT_EQ(walk(spread(4096, 256, false), with_cores(2)), "64 terms, 8 rows at a time, in 8 parts");
  EXPECT_EQ(walk(spread(1 << 15, 64, false), with_cores(1)), "512 terms, 8 rows at a time, in 8 parts");
}

}  // namespace
}  // namespace lathe::testing
