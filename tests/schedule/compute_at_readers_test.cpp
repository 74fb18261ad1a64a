// compute_at where some readers lie behind the loop, or where the block shares loops with it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// `double` is read by `sum`, over the first `columns` and beside `reads`, and by `store` behind it: each within its
/// own loop over rows, or all in one.
Func two_readers(bool shared_rows, int columns, const std::string& reads, const std::string& term) {
  const std::string rows = "for i in [0, 4) {\n", next = shared_rows ? "" : "}\n" + rows;
  return parse_func(fmt::format(R"(func {5}(x: f32[4, 10], out: f32[4, 10]) stage begin {{
  block root() reads x[..] writes out[..] {{
    alloc twice: f32[4, 10]
    alloc total: f32[4]
    {0}
      for j in [0, 10) {{
        block double(space vi in [0, 4) = i, space vj in [0, 10) = j) reads x[vi, vj] writes twice[vi, vj] {{
          twice[vi, vj] = x[vi, vj] * 2.0f32
        }}
      }}
    {1}
      for k in [0, {2}) {{
        block sum(space vi in [0, 4) = i, reduce vk in [0, {2}) = k) reads {3}, total[vi] writes total[vi] {{
          reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
          init {{
            total[vi] = 0.0f32
          }}
          let l: f32 = total[vi]
          let r: f32 = {4}
          total[vi] = l + r
        }}
      }}
    {1}
      for j in [0, 10) {{
        block store(space vi in [0, 4) = i, space vj in [0, 10) = j)
            reads twice[vi, vj], total[vi] writes out[vi, vj] {{
          out[vi, vj] = twice[vi, vj] - total[vi]
        }}
      }}
    }}
  }}
}}
)",
                                rows, next, columns, reads, term, shared_rows ? "shared_rows" : "two_readers"));
}

Func apart(int columns) {
  return two_readers(false, columns, "twice[vi, vk]", "twice[vi, vk]");
}

/// The rows of all three blocks in one loop; `sum` reads `other` too.
Func shared_rows(const std::string& other) {
  return two_readers(true, 10, "twice[vi, vk], " + other, "twice[vi, vk] * " + other);
}

TEST(ComputeAt, LeavesAReaderBehindTheLoop) {
  const Func before = apart(10);
  Schedule s(before);
  compute_at(s, {"double"}, split(s, s.loop("sum", 1), 4).first);
  expect_scheduled(s, before, "compute_at_reader_behind");
}

TEST(ComputeAt, RefusesAReaderBeforeTheLoop) {
  Schedule s(apart(10));
  expect_refused(
      s, [&] { compute_at(s, {"double"}, s.loop("store", 0)); }, "compute_at", 3, "compute_at_refused_3_before");
}

TEST(ComputeAt, RefusesAReaderBehindThatNeedsMore) {
  Schedule s(apart(5));
  expect_refused(s, [&] { compute_at(s, {"double"}, s.loop("sum", 1)); }, "compute_at", 3, "compute_at_refused_3_part");
}

TEST(ComputeAt, KeepsTheLoopsThatItShares) {
  const Func before = shared_rows("x[vi, vk]");
  Schedule s(before);
  compute_at(s, {"double"}, split(s, s.loop("sum", 1), 4).first);
  expect_scheduled(s, before, "compute_at_shared");
}

TEST(ComputeAt, RefusesToComputeOtherIterationsOfASharedLoop) {
  Schedule s(shared_rows("twice[0, vk]"));
  expect_refused(
      s, [&] { compute_at(s, {"double"}, s.loop("sum", 1)); }, "compute_at", 1, "compute_at_refused_1_shared");
}

/// `place` asserts for each of 6 elements; `store` reads `reads` of them, by rows of `columns`.
Func asserting(const std::string& columns, const std::string& reads) {
  return parse_func(fmt::format(R"(func asserting(x: i64[6], out: i64[6, {0}]) stage begin {{
  block root() reads x[..] writes out[..] {{
    alloc places: i64[6]
    for i in [0, 6) {{
      block place(space vi in [0, 6) = i) reads x[vi] writes places[vi] {{
        assert x[vi] < 7, "take|axis 0|index", x[vi]
        places[vi] = x[vi]
      }}
    }}
    for i in [0, 6) {{
      for j in [0, {0}) {{
        block store(space vi in [0, 6) = i, space vj in [0, {0}) = j) reads places[{1}] writes out[vi, vj] {{
          out[vi, vj] = places[{1}]
        }}
      }}
    }}
  }}
}}
)",
                                columns, reads));
}

TEST(ComputeAt, MovesWhatAssertsWhereAllOfItStillRuns) {
  const Func before = asserting("4", "vi");
  Schedule s(before);
  compute_at(s, {"place"}, s.loop("store", 0));
  expect_scheduled(s, before, "compute_at_asserts");
}

TEST(ComputeAt, RefusesToLeaveAssertionsOut) {
  Schedule part(asserting("4", "vi // 2"));
  expect_refused(
      part, [&] { compute_at(part, {"place"}, part.loop("store", 0)); }, "compute_at", 8, "compute_at_refused_8_part");
  Schedule none(asserting("0", "vi"));
  expect_refused(
      none, [&] { compute_at(none, {"place"}, none.loop("store", 1)); }, "compute_at", 8, "compute_at_refused_8_none");
}

}  // namespace
}  // namespace lathe::testing
