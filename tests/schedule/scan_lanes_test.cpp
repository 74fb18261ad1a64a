#include "schedule/primitives/scan_lanes.h"

#include <fmt/format.h>

#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/scan.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A block over rows, and in order over `n` columns.
Func row_block(int n, const std::string& body, const std::string& type = "f32") {
  return parse_func(fmt::format(R"(func rows(x: {0}[3, {1}], out: {0}[3, {1}]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, 3) {{ for j in [0, {1}) {{
      block run(space vi in [0, 3) = i, ordered vj in [0, {1}) = j) reads x[vi, vj], out[vi, vj - 1] writes out[vi, vj] {{
        {2}
      }}
    }} }}
  }}
}}
)",
                                type, n, body));
}

Func sums(int n) {
  return row_block(n, "out[vi, vj] = out[vi, vj - 1 if vj >= 1] + x[vi, vj]");
}

TEST(ScanLanes, CombinesStepsOfAVector) {
  const Func before = sums(12);
  Schedule s(before);
  const ScanLanes made = scan_lanes(s, {"run"}, 4);
  EXPECT_EQ(made.start.name, "run_start");
  EXPECT_EQ(made.terms.name, "run_terms");
  EXPECT_FALSE(made.rest);
  expect_scheduled(s, before, "scan_lanes");
}

TEST(ScanLanes, LeavesItsVectorsToRegistersAndItsTermsToVectors) {
  const Func before = sums(16);
  Schedule s(before);
  const ScanLanes made = scan_lanes(s, {"run"}, 8);
  set_space(s, made.start, space::registers);
  set_space(s, made.terms, space::registers);
  vectorize(s, s.loops(made.terms).back());
  expect_same(before, s.func());
}

TEST(ScanLanes, GoesOnBehindTheLastWholeStep) {
  const Func before = sums(11);
  Schedule s(before);
  EXPECT_EQ(scan_lanes(s, {"run"}, 4).rest->name, "run_rest");
  expect_scheduled(s, before, "scan_lanes_rest");
}

TEST(ScanLanes, StartsFromTheIdentityOfItsOperation) {
  for (const auto& [op, identity] : {std::pair("min", "2147483647i32"), {"max", "-2147483648i32"}}) {
    const Func before = row_block(
        8,
        fmt::format(
            "let t: i32 = x[vi, vj] * 2i32\n out[vi, vj] = {}(select(vj > 0, out[vi, vj - 1 if vj > 0], {}), t)", op,
            identity),
        "i32");
    Schedule s(before);
    scan_lanes(s, {"run"}, 4);
    expect_same(before, s.func());
  }
  const Func before =
      row_block(8, "out[vi, vj] = x[vi, vj] * select(vj >= 1, out[vi, vj - 1 if vj >= 1], 1i32)", "i32");
  Schedule s(before);
  scan_lanes(s, {"run"}, 2);
  expect_scheduled(s, before, "scan_lanes_products");
}

TEST(ScanLanes, TakesFactorsOneAfterAnotherWhereTheirProductsOverflow) {
  const Func before = row_block(8, "out[vi, vj] = select(vj >= 1, out[vi, vj - 1 if vj >= 1], 1.0f32) * x[vi, vj]");
  Schedule s(before);
  scan_lanes(s, {"run"}, 4);
  expect_scheduled(s, before, "scan_lanes_factors");
}

TEST(ScanLanes, RefusesLanesThatDoNotHalve) {
  Schedule s(sums(12));
  expect_refused(s, [&] { scan_lanes(s, {"run"}, 3); }, "scan_lanes", 1, "scan_lanes_refused_1");
}

void expect_no_scan(const Func& func, const std::string& suffix) {
  Schedule s(func);
  expect_refused(s, [&] { scan_lanes(s, {"run"}, 4); }, "scan_lanes", 2, "scan_lanes_refused_2" + suffix);
}

TEST(ScanLanes, RefusesWhatIsNoScan) {
  expect_no_scan(row_block(12, "out[vi, vj] = x[vi, vj] - out[vi, vj - 1 if vj >= 1]"), "");
  // Each of these reads something else than the element one step before it, or does not begin with the identity.
  for (const char* body :
       {"out[vi, vj] = out[vi, vj - 2 if vj >= 2] + x[vi, vj]", "out[vi, vj] = out[vi, vj - 1 if vj >= 2] + x[vi, vj]",
        "out[vi, vj] = out[0, vj - 1 if vj >= 1] + x[vi, vj]",
        "out[vi, vj] = max(out[vi, vj - 1 if vj >= 1], x[vi, vj])",
        "out[vi, vj] = select(vj >= 1, out[vi, vj - 1 if vj >= 1], 1.0f32) + x[vi, vj]",
        "out[vi, vj] = select(vj >= 1, out[vi, vj - 1 if vj >= 1], x[vi, vj]) + x[vi, vj]",
        "out[vi, vj] = out[vi, vj - 1 if vj >= 1] + out[vi, vj - 1 if vj >= 1]",
        "let t: f32 = out[vi, vj - 1 if vj >= 1]\n out[vi, vj] = out[vi, vj - 1 if vj >= 1] + t",
        "out[vi, vj if x[vi, vj] > 0.0f32] = out[vi, vj - 1 if vj >= 1] + x[vi, vj]"}) {
    Schedule s(row_block(12, body));
    EXPECT_FALSE(match_scan(s.node(BlockRef{"run"}))) << body;
  }
}

TEST(ScanLanes, RefusesAPredicate) {
  Schedule s(sums(12));
  split(s, s.loop("run", 0), 2);
  expect_refused(s, [&] { scan_lanes(s, {"run"}, 4); }, "scan_lanes", 2, "scan_lanes_refused_2_predicate");
}

TEST(ScanLanes, RefusesALoopThatItCannotCut) {
  Schedule s(sums(3));
  expect_refused(s, [&] { scan_lanes(s, {"run"}, 4); }, "scan_lanes", 3, "scan_lanes_refused_3");
  Schedule behind(sums(12));
  partition(behind, behind.loop("run", 1), 4);
  EXPECT_THROW(scan_lanes(behind, {"run_1"}, 4), Refusal);
}

TEST(VectorizeScans, StepsAlongARow) {
  for (const int n : {3, 16, 37, 64}) expect_scheduled_well(sums(n));
  EXPECT_EQ(decisions_on(sums(37), wide(), "run"), "scan run in steps of 16 lanes\n");
  EXPECT_EQ(decisions_on(sums(37), narrow(), "run"), "scan run in steps of 4 lanes\n");
}

TEST(VectorizeScans, StepsAlongARowOfUnknownLength) {
  const Func func =
      parse_func(R"(func rows(x: f32[3, n], out: f32[3, n], n: i64) stage begin facts { n in [2, 100000] } {
  block root() reads x[..], out[..] writes out[..] {
    for i in [0, 3) { for j in [0, n) {
      block run(space vi in [0, 3) = i, ordered vj in [0, n) = j) reads x[vi, vj], out[vi, vj - 1] writes out[vi, vj] {
        out[vi, vj] = out[vi, vj - 1 if vj >= 1] + x[vi, vj] } } } } })");
  ScheduleLog log;
  for (const Finding& finding : verify(auto_schedule(func, wide(), &log)))
    ADD_FAILURE() << finding.rule << ": " << finding.message;
  EXPECT_EQ(log.decisions, std::vector<std::string>{"scan run in steps of 16 lanes"});
}

/// Running sums down the columns, `n` of them.
Func down(const std::string& n, const std::string& params = "", const std::string& facts = "") {
  return parse_func(fmt::format(R"(func down(x: f32[5, {0}], out: f32[5, {0}]{1}) stage begin {2} {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, 5) {{ for j in [0, {0}) {{
      block run(ordered vi in [0, 5) = i, space vj in [0, {0}) = j) reads x[vi, vj], out[vi - 1, vj] writes out[vi, vj] {{
        out[vi, vj] = out[vi - 1, vj if vi >= 1] + x[vi, vj]
      }}
    }} }}
  }}
}}
)",
                                n, params, facts));
}

TEST(VectorizeScans, TakesVectorsAcrossWhatLiesAcross) {
  for (const char* n : {"7", "37", "2500"}) {
    expect_scheduled_well(down(n));
    EXPECT_EQ(decisions_on(down(n), wide(), "run"), "vectorize run across its scan, over j\n") << n;
  }
  ScheduleLog log;
  const Func symbolic = auto_schedule(down("n", ", n: i64", "facts { n in [2, 100000] }"), wide(), &log);
  EXPECT_EQ(log.decisions, std::vector<std::string>{"vectorize run across its scan, over j"});
  for (const Finding& finding : verify(symbolic)) ADD_FAILURE() << finding.rule << ": " << finding.message;
}

TEST(VectorizeScans, ScansFewColumnsOfSeveralRowsSideBySide) {
  const auto batched = [](int rows, int columns) {
    return parse_func(fmt::format(R"(func down(x: f32[{0}, 6, {1}], out: f32[{0}, 6, {1}]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for b in [0, {0}) {{ for i in [0, 6) {{ for j in [0, {1}) {{
      block run(space vb in [0, {0}) = b, ordered vi in [0, 6) = i, space vj in [0, {1}) = j)
          reads x[vb, vi, vj], out[vb, vi - 1, vj] writes out[vb, vi, vj] {{
        out[vb, vi, vj] = out[vb, vi - 1, vj if vi >= 1] + x[vb, vi, vj]
      }}
    }} }} }}
  }}
}}
)",
                                  rows, columns));
  };
  const auto rows_together = [&](int rows, int columns) -> int {
    const std::string text = print(auto_schedule(batched(rows, columns), wide()));
    for (const int together : {2, 3, 4}) {
      if (text.find(fmt::format("unrolled for bi in [0, {})", together)) != std::string::npos) return together;
    }
    return 1;
  };
  for (const int rows : {1, 2, 3, 5, 6, 7, 8}) {
    for (const int columns : {2, 3, 16, 33}) expect_scheduled_well(batched(rows, columns));
  }
  EXPECT_EQ(rows_together(8, 2), 4);
  EXPECT_EQ(rows_together(6, 16), 3);
  EXPECT_EQ(rows_together(7, 3), 4) << "the last rows are not there";
  EXPECT_EQ(rows_together(3, 2), 3);
  EXPECT_EQ(rows_together(1, 2), 1);
  EXPECT_EQ(rows_together(8, 40), 1) << "vectors of a row are enough";
}

/// Runs along a row or, `down`, down the columns by a combination that no pass knows; `combined` is of l and r.
Func unknown_scan(bool down, const std::string& combined) {
  return parse_func(fmt::format(R"(func scan(x: f32[40, 36], out: f32[40, 36]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, 40) {{ for j in [0, 36) {{
      block run({0}) reads x[vi, vj], out[{1}] writes out[vi, vj] {{
        let l: f32 = select({2} >= 1, out[{1} if {2} >= 1], 0.0f32)
        let r: f32 = x[vi, vj]
        out[vi, vj] = {3}
      }} }} }} }} }})",
                                down ? "ordered vi in [0, 40) = i, space vj in [0, 36) = j"
                                     : "space vi in [0, 40) = i, ordered vj in [0, 36) = j",
                                down ? "vi - 1, vj" : "vi, vj - 1", down ? "vi" : "vj", combined));
}

TEST(VectorizeScans, TakesVectorsAcrossAnyCombination) {
  const Func columns = unknown_scan(true, "abs(l - r)");
  EXPECT_EQ(decisions_on(columns, wide(), "run"), "vectorize run across its scan, over j\n");
  expect_scheduled_well(columns);
}

TEST(VectorizeScans, TakesRowsSideBySideWhereTheyTakeLongToCompute) {
  const Func costly = unknown_scan(false, "sqrt(sqrt(abs(l - r)))");
  const std::string turned = "scan 16 rows of run side by side";
  EXPECT_EQ(decisions_on(costly, wide(), "run").substr(0, turned.size()), turned);
  expect_scheduled_well(costly);
  EXPECT_EQ(decisions_on(unknown_scan(false, "abs(l - r)"), wide(), "run").substr(0, turned.size()), turned);
}

}  // namespace
}  // namespace lathe::testing
