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

/// The greatest element of each column of x, and the first row that has it.
Func argmax_of_columns(int rows, int columns) {
  return parse_func(fmt::format(
      R"(func argmax(x: f32[{0}, {1}], best: f32[{1}], place: i64[{1}]) stage begin {{
  block root() reads x[..], best[..], place[..] writes best[..], place[..] {{
    for j in [0, {1}) {{ for k in [0, {0}) {{
      block argmax(space vj in [0, {1}) = j, reduce vk in [0, {0}) = k)
          reads x[vk, vj], best[vj], place[vj] writes best[vj], place[vj]
      {{
        reducer (l: f32, li) (r: f32, ri) {{select({2}, r, l),
                                           select({2}, ri, li)}}
          identity {{-inf(f32), 9223372036854775807}}
        init {{ best[vj] = -inf(f32)
               place[vj] = 9223372036854775807 }}
        let l0: f32 = best[vj]
        let l1 = place[vj]
        let r0: f32 = x[vk, vj]
        let r1 = vk
        best[vj] = select({3}, r0, l0)
        place[vj] = select({3}, r1, l1)
      }} }} }} }} }})",
      rows, columns, wins("l", "li", "r", "ri"), wins("l0", "l1", "r0", "r1")));
}

std::string decision(int rows, int columns) {
  const Func func = argmax_of_columns(rows, columns);
  expect_scheduled_well(func);
  return decisions_on(func, wide(), "argmax");
}

TEST(ReduceTuples, ReducesTwoRowsOfColumnsAtOnce) {
  EXPECT_EQ(decision(40, 3), "reduce tuples of argmax in 1 vectors of 4 neighbours, 2 rows at once\n");
  EXPECT_EQ(decision(33, 70), "reduce tuples of argmax in 2 vectors of 16 neighbours, 2 rows at once\n");
  expect_golden(print(auto_schedule(argmax_of_columns(40, 3), wide())), "auto_tuples_of_columns.tir");
}

TEST(ReduceTuples, ReducesFewRowsOneByOne) {
  EXPECT_EQ(decision(20, 16), "reduce tuples of argmax in 1 vectors of 16 neighbours\n");
}

}  // namespace
}  // namespace lathe::testing
