/// separate_window, and the rule that applies it: windows that are summed one axis after the other.
#include "schedule/primitives/separate_window.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[i, j] over windows of `high` x `wide` of 40 x `width` elements, as many as `results` a row, of `term`.
Func windows(int high, int wide, int results, const std::string& term, const std::string& combined = "l + t",
             const std::string& identity = "0.0f32", int width = 60) {
  return parse_func(fmt::format(R"(func windows(x: f32[40, {6}], w: f32[16], out: f32[30, {2}]) {{
  for i in [0, 30) {{
    for j in [0, {2}) {{
      for r in [0, {0}) {{
        for s in [0, {1}) {{
          block sum(space vi in [0, 30) = i, space vj in [0, {2}) = j, reduce vr in [0, {0}) = r, reduce vs in [0, {1}) = s)
              reads out[vi, vj], x[..], w[..] writes out[vi, vj] {{
            reducer (l: f32) (t: f32) {{{4}}} identity {{{5}}}
            init {{ out[vi, vj] = {5} }}
            let l: f32 = out[vi, vj]
            let t: f32 = {3}
            out[vi, vj] = {4}
          }}
        }}
      }}
    }}
  }}
}}
)",
                                high, wide, results, term, combined, identity, width));
}

const std::string plain = "x[vi + vr, vj + vs]";

void separate(Schedule& s) {
  separate_window(s, {"sum"}, s.loop("sum", 1), s.loop("sum", 3));
}

void expect_separated(const Func& before, const std::string& name) {
  Schedule s(before);
  separate(s);
  expect_scheduled(s, before, name);
}

TEST(SeparateWindow, SharesWhatTheOtherAxesComeTo) {
  expect_separated(windows(5, 7, 50, plain), "separate_window");
}

TEST(SeparateWindow, OfWindowsByStepsBeyondBorders) {
  const std::string at = "vj * 2 + vs - 1";
  expect_separated(
      windows(3, 3, 30,
              fmt::format("select(0 <= {0} && {0} < 60, x[vi + vr, {0} if 0 <= {0} && {0} < 60], 0.0f32)", at),
              "max(l, t)", "-inf(f32)"),
      "separate_window_strided");
}

const std::string padded =
    "select(0 < vj * 2 + vs && vj * 2 + vs < 61, x[vi + vr, vj * 2 + vs - 1 if 0 < vj * 2 + vs && vj * 2 + vs < 61], "
    "0.0f32)";

TEST(SeparateWindow, BeginsRowsWithPadding) {
  const Func before = windows(3, 3, 30, padded);
  for (const std::int64_t lead : {1, 7, 15}) {
    SCOPED_TRACE(lead);
    Schedule s(before);
    separate_window(s, {"sum"}, s.loop("sum", 1), s.loop("sum", 3), lead);
    EXPECT_NE(print(s.func()).find(fmt::format("alloc sum_window: f32[30, {}]", 61 + lead)), std::string::npos);
    expect_same(before, s.func());
  }
  Schedule s(windows(3, 3, 30, "x[vi + vr, vj + vs]"));
  expect_refused(
      s, [&] { separate_window(s, {"sum"}, s.loop("sum", 1), s.loop("sum", 3), 4); }, "separate_window", 7,
      "separate_window_refused_7");
  Schedule back(before);
  EXPECT_THROW(separate_window(back, {"sum"}, back.loop("sum", 1), back.loop("sum", 3), -1), Refusal);
}

TEST(SeparateWindow, OfElementsThatLieApartOrTurnBack) {
  for (const std::string at :
       {"vj + vs * 3", "vj * 2 + vs * 2", "vj - vs + 6", "vj * 2 - vs + 6", "50 - vj - vs", "vj * 4 + vs * 2"}) {
    const Func before = windows(4, 6, 10, fmt::format("x[vi + vr, {}] * x[vi, {}]", at, at));
    Schedule s(before);
    separate(s);
    expect_same(before, s.func());
  }
}

TEST(SeparateWindow, RefusesWhatWindowsDoNotShare) {
  for (const std::string& term :
       {plain + " * w[vs]", plain + " * w[vj // 4]", std::string("x[vi + vr, vj * 5 + vs // 2]"),
        std::string("x[vi + vr, vj + vs * 11]"), std::string("x[vi + vr, vj * 2 + vs * 3]"),
        std::string("x[vi + vr, vs]"), plain + " * x[vi + vr, vj + vs * 2]"}) {
    Schedule s(windows(4, 6, 9, term));
    EXPECT_THROW(separate(s), Refusal) << term;
  }
  Schedule s(windows(4, 6, 9, plain + " * w[vs]"));
  expect_refused(s, [&] { separate(s); }, "separate_window", 6, "separate_window_refused_6");
}

TEST(SeparateWindow, RefusesOtherIters) {
  Schedule s(windows(4, 6, 9, plain));
  expect_refused(
      s, [&] { separate_window(s, {"sum"}, s.loop("sum", 2), s.loop("sum", 3)); }, "separate_window", 3,
      "separate_window_refused_3");
  EXPECT_THROW(separate_window(s, {"sum"}, s.loop("sum", 1), s.loop("sum", 0)), Refusal);
  Schedule one(windows(1, 6, 9, plain));
  separate(one);
  EXPECT_THROW(separate_window(one, {"sum"}, one.loop("sum", 1), one.loop("sum", 2)), Refusal);
}

bool separates(const Func& func) {
  return decisions_on(func, wide(), "sum").find("sum the windows of sum along s by themselves") == 0;
}

TEST(SeparateWindows, WhereThatSavesLoads) {
  EXPECT_TRUE(separates(windows(3, 3, 50, plain)));
  EXPECT_TRUE(separates(windows(9, 9, 50, plain + " * " + plain)));
  EXPECT_TRUE(separates(windows(5, 5, 20, "x[vi + vr, vj * 2 + vs]", "max(l, t)", "-inf(f32)")));
  EXPECT_TRUE(separates(windows(3, 3, 20, "x[vi + vr, vj * 2 + vs]")));
  EXPECT_TRUE(separates(windows(3, 3, 50, "x[vi + vr, vj * 2 + vs]", "l + t", "0.0f32", 101)));
  EXPECT_FALSE(separates(windows(3, 3, 7, "x[vi + vr, vj * 2 + vs]"))) << "less than half a vector";
  EXPECT_FALSE(separates(windows(3, 3, 9, plain)));
  EXPECT_FALSE(separates(windows(2, 2, 50, plain)));
  EXPECT_FALSE(separates(windows(2, 2, 30, "x[vi + vr, vj * 2 + vs]")));
  EXPECT_FALSE(separates(windows(5, 5, 50, plain + " * w[vr + vs]")));
}

TEST(SeparateWindows, BeginRowsWithLinesOfTheImage) {
  const auto record = [](int width, const Device& device) {
    ScheduleLog log;
    const std::string term = replaced_all(padded, "61", std::to_string(width + 1));
    const Func func = windows(3, 3, width / 2, term, "l + t", "0.0f32", width);
    expect_same(func, auto_schedule(func, device, &log));
    return log.record.empty() ? "" : log.record.front();
  };
  Device device = fused(wide(), 1);
  device.caches = {{std::int64_t{32} << 10, 8, 64, false}, {std::int64_t{1} << 20, 8, 64, false}};
  EXPECT_EQ(record(64, device), "separate_window(sum, sum.1, sum.3, 15)");
  EXPECT_EQ(record(60, device), "separate_window(sum, sum.1, sum.3)") << "rows are no whole lines";
  device.mask_registers = 0;
  EXPECT_EQ(record(64, device), "separate_window(sum, sum.1, sum.3)");
}

TEST(SeparateWindows, TakeTheFewStepsOfATileInOneBody) {
  const std::string text = print(auto_schedule(windows(3, 3, 50, plain, "max(l, t)", "-inf(f32)"), wide()));
  EXPECT_EQ(text.find(" for r in [0, 3)"), text.find("unrolled for r in [0, 3)") + 8) << text;
  EXPECT_EQ(text.find(" for s in [0, 3)"), text.find("unrolled for s in [0, 3)") + 8) << text;
}

TEST(SeparateWindows, LoopOverTheStepsOfSumsThatLieApart) {
  const std::string text = print(auto_schedule(windows(1, 2, 30, "x[vi + vr, vj * 2 + vs]"), wide()));
  EXPECT_EQ(text.find("unrolled for s in"), std::string::npos) << text;
  EXPECT_NE(text.find(" for s in [0, 2)"), std::string::npos) << text;
}

TEST(JoinWindows, KeepsRowsInRegistersThatWindowsByStepsArePickedOutOf) {
  const auto keeps = [](const Func& func) {
    return decisions_on(func, fused(wide(), 1), "").find("keep sum_window in registers") != std::string::npos;
  };
  for (const int columns : {50, 28, 14}) {
    SCOPED_TRACE(columns);
    const Func func = windows(3, 3, columns, "x[vi + vr, vj * 2 + vs]", "max(l, t)", "-inf(f32)", 2 * columns + 1);
    EXPECT_TRUE(keeps(func)) << decisions_on(func, fused(wide(), 1), "");
    expect_scheduled_well(func);
  }
  EXPECT_FALSE(keeps(windows(3, 9, 30, "x[vi + vr, vj * 5 + vs]", "l + t", "0.0f32", 160))) << "no vectors pick these";
  EXPECT_FALSE(keeps(windows(3, 3, 300, "x[vi + vr, vj * 2 + vs]", "l + t", "0.0f32", 601))) << "long rows";
}

TEST(JoinWindows, KeepsRowsBesideTheirWindows) {
  const std::string decisions = decisions_on(windows(7, 7, 50, plain), wide(), "");
  EXPECT_NE(decisions.find("sum windows of each"), std::string::npos) << decisions;
  EXPECT_EQ(decisions.find("not sum windows of each"), std::string::npos) << decisions;
}

}  // namespace
}  // namespace lathe::testing
