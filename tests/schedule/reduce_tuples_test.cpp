#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Does r at ri win over l at li? NaN is greater than all else; of equal ones the first does.
std::string wins(const std::string& l, const std::string& li, const std::string& r, const std::string& ri) {
  return fmt::format("!({2} <= {0}) && !is_nan({0}) || ({0} == {2} || is_nan({0}) && is_nan({2})) && {3} < {1}", l, li,
                     r, ri);
}

/// The greatest of `count` elements x[`element`] for each j, and the first k that has it; vj and vk name both.
Func argmax(const std::string& shape, const std::string& element, int results, int count) {
  return parse_func(fmt::format(
      R"(func argmax(x: f32[{0}], best: f32[{1}], place: i64[{1}]) stage begin {{
  block root() reads x[..], best[..], place[..] writes best[..], place[..] {{
    for j in [0, {1}) {{ for k in [0, {2}) {{
      block argmax(space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
          reads x[{3}], best[vj], place[vj] writes best[vj], place[vj]
      {{
        reducer (l: f32, li) (r: f32, ri) {{select({4}, r, l),
                                           select({4}, ri, li)}}
          identity {{-inf(f32), 9223372036854775807}}
        init {{ best[vj] = -inf(f32)
               place[vj] = 9223372036854775807 }}
        let l0: f32 = best[vj]
        let l1 = place[vj]
        let r0: f32 = x[{3}]
        let r1 = vk
        best[vj] = select({5}, r0, l0)
        place[vj] = select({5}, r1, l1)
      }} }} }} }} }})",
      shape, results, count, element, wins("l", "li", "r", "ri"), wins("l0", "l1", "r0", "r1")));
}

Func argmax_of_columns(int rows, int columns) {
  return argmax(fmt::format("{}, {}", rows, columns), "vk, vj", columns, rows);
}

Func argmax_of_rows(int rows, int columns) {
  return argmax(fmt::format("{}, {}", rows, columns), "vj, vk", rows, columns);
}

std::string decision(const Func& func) {
  expect_scheduled_well(func);
  return decisions_on(func, wide(), "argmax");
}

TEST(ReduceTuples, ReducesTwoRowsOfColumnsAtOnce) {
  EXPECT_EQ(decision(argmax_of_columns(40, 3)),
            "reduce tuples of argmax in 1 vectors of 4 neighbours, 2 rows at once\n");
  EXPECT_EQ(decision(argmax_of_columns(33, 70)),
            "reduce tuples of argmax in 2 vectors of 16 neighbours, 2 rows at once\n");
  expect_golden(print(auto_schedule(argmax_of_columns(40, 3), wide())), "auto_tuples_of_columns.tir");
}

TEST(ReduceTuples, KeepsWhatFewRowsComeToInRegisters) {
  EXPECT_EQ(decision(argmax_of_columns(20, 16)),
            "reduce tuples of argmax in 1 vectors of 16 neighbours, in registers\n");
}

TEST(ReduceTuples, ReducesRowsSideBySide) {
  EXPECT_EQ(decision(argmax_of_rows(16, 300)), "reduce tuples of 4 rows of argmax in 16 lanes\n");
  EXPECT_EQ(decision(argmax_of_rows(16, 100)), "reduce tuples of 4 rows of argmax in 8 lanes\n")
      << "folding more lanes takes longer than such a row";
  EXPECT_EQ(decision(argmax_of_rows(10, 100)), "reduce tuples of 2 rows of argmax in 8 lanes\n");
  expect_golden(print(auto_schedule(argmax_of_rows(16, 100), wide())), "auto_tuples_of_rows.tir");
}

TEST(ReduceTuples, ReducesARowAloneWhereTheyMakeNoGroups) {
  EXPECT_EQ(decision(argmax_of_rows(15, 100)), "reduce tuples of argmax in 1 vectors of 16 lanes\n");
  EXPECT_EQ(decision(argmax_of_rows(4, 100)), "reduce tuples of argmax in 1 vectors of 16 lanes\n")
      << "four cores share four rows";
}

TEST(ReduceTuples, FoldsTheLanesOfARowByHalves) {
  expect_golden(print(auto_schedule(argmax_of_rows(15, 100), wide())), "auto_tuples_of_a_row.tir");
}

TEST(ReduceTuples, GathersAsManyShortRowsAsThereAreLanes) {
  for (const int rows : {16, 45})
    EXPECT_EQ(decision(argmax_of_rows(rows, 90)),
              fmt::format("reduce tuples of argmax in {} vectors of 16 neighbours\n", rows < 32 ? 1 : 2));
}

TEST(ReduceTuples, GathersNoRowsFromFarAway) {
  EXPECT_EQ(decision(argmax_of_rows(10, 90)), "reduce tuples of argmax in 1 vectors of 16 neighbours\n");
  Device far = wide();
  CacheLevel cache;
  cache.bytes = 2048;
  cache.line_bytes = 64;
  far.caches = {cache};
  EXPECT_TRUE(
      says(decisions_on(argmax_of_rows(16, 90), far, "argmax"), "reduce tuples of 4 rows of argmax in 8 lanes"));
}

TEST(ReduceTuples, JoinsFewShortRowsToGatherThemTogether) {
  const std::string rows = replaced_all(print(argmax_of_rows(250, 48)), "vj", "vi, vj");
  const std::string text = replaced_all(
      replaced_all(
          replaced_all(replaced_all(rows, "[250", "[50, 5"), "for j in [0, 250)", "for i in [0, 50) { for j in [0, 5)"),
          "space vi, vj in [0, 250) = j", "space vi in [0, 50) = i, space vj in [0, 5) = j"),
      "\n    }\n  }\n}", "\n    } }\n  }\n}");
  EXPECT_EQ(decision(parse_func(text)), "join rows of argmax\nreduce tuples of argmax in 2 vectors of 16 neighbours\n");
}

TEST(ReduceTuples, GathersNarrowElementsForWholeVectorsAlone) {
  const auto of_halves = [](int rows) {
    return decision(parse_func(replaced_all(print(argmax_of_rows(rows, 20)), "f32", "f16")));
  };
  EXPECT_EQ(of_halves(13), "");
  EXPECT_EQ(of_halves(16), "reduce tuples of argmax in 1 vectors of 16 neighbours\n");
  EXPECT_EQ(decision(argmax_of_rows(13, 20)), "reduce tuples of argmax in 1 vectors of 16 neighbours\n");
}

}  // namespace
}  // namespace lathe::testing
