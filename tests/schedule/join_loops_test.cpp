#include "schedule/primitives/join_loops.h"

#include "ir/text/parse.h"
#include "schedule/primitives/join_blocks.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums of rows and of the squares of what rows are over their sums, each a nest of its own, with an output between.
Func two_sums() {
  return parse_func(R"(func sums(x: f32[6, 10], half: f32[6], out: f32[6]) stage begin {
  block root() reads x[..] writes half[..], out[..] {
    alloc sum: f32[6]
    for i in [0, 6) { for k in [0, 10) {
      block sum(space vi in [0, 6) = i, reduce vk in [0, 10) = k) reads x[vi, vk], sum[vi] writes sum[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { sum[vi] = 0.0f32 }
        let l: f32 = sum[vi]
        let r: f32 = x[vi, vk]
        sum[vi] = l + r } } }
    for h in [0, 6) {
      block half(space vh in [0, 6) = h) reads sum[vh] writes half[vh] { half[vh] = sum[vh] * 0.5f32 } }
    for i1 in [0, 6) { for k1 in [0, 10) {
      block squares(space wi in [0, 6) = i1, reduce wk in [0, 10) = k1) reads x[wi, wk], sum[wi], out[wi] writes out[wi] {
        reducer (lhs_1: f32) (rhs_1: f32) {lhs_1 + rhs_1} identity {0.0f32}
        init { out[wi] = 0.0f32 }
        let l1: f32 = out[wi]
        let r1: f32 = (x[wi, wk] - sum[wi]) * (x[wi, wk] - sum[wi])
        out[wi] = l1 + r1 } } } } })");
}

/// t[i] = x[i] + 1, then use[i] = t[i + SHIFT] * x[i].
Func stages(const std::string& index, const std::string& region) {
  return parse_func(R"(func stages(x: f32[12], t: f32[12], use: f32[12]) stage begin {
  block root() reads x[..], t[..] writes t[..], use[..] {
    for i in [0, 12) { block t(space vi in [0, 12) = i) reads x[vi] writes t[vi] { t[vi] = x[vi] + 1.0f32 } }
    for j in [0, 12) { block use(space vj in [0, 12) = j) reads )" +
                    region + R"(, x[vj] writes use[vj] { use[vj] = )" + index + R"( * x[vj] } } } })");
}

TEST(JoinLoops, RunsReductionsOverTheSameRowsByTurns) {
  const Func before = two_sums();
  Schedule s(before);
  join_loops(s, s.loop("sum", 0), s.loop("squares", 0));
  expect_scheduled(s, before, "join_loops");
}

TEST(JoinLoops, MovesTheFirstBehindWhatDoesNotReadIt) {
  const Func before = two_sums();
  Schedule s(before);
  join_loops(s, s.loop("half", 0), s.loop("squares", 0));
  join_loops(s, s.loop("sum", 0), s.loop("half", 0));
  expect_scheduled(s, before, "join_loops_three");
}

TEST(JoinLoops, JoinsReduceLoops) {
  const Func before = parse_func(R"(func both(x: f32[6, 10], a: f32[6], b: f32[6]) stage begin {
  block root() reads x[..] writes a[..], b[..] {
    for i in [0, 6) {
      for k in [0, 10) {
        block a(space vi in [0, 6) = i, reduce vk in [0, 10) = k) reads x[vi, vk], a[vi] writes a[vi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init { a[vi] = 0.0f32 }
          let l: f32 = a[vi]
          let r: f32 = x[vi, vk]
          a[vi] = l + r } }
      for k1 in [0, 10) {
        block b(space wi in [0, 6) = i, reduce wk in [0, 10) = k1) reads x[wi, wk], b[wi] writes b[wi] {
          reducer (lhs_1: f32) (rhs_1: f32) {max(lhs_1, rhs_1)} identity {-inf(f32)}
          init { b[wi] = -inf(f32) }
          let l1: f32 = b[wi]
          let r1: f32 = x[wi, wk]
          b[wi] = max(l1, r1) } } } } })");
  Schedule s(before);
  join_loops(s, s.loop("a", 1), s.loop("b", 1));
  expect_scheduled(s, before, "join_loops_reduce");
}

TEST(JoinLoops, ReadsWhatEarlierIterationsWrote) {
  const Func before = stages("t[vj - 2 if vj >= 2]", "t[vj - 2]");
  Schedule s(before);
  join_loops(s, s.loop("t", 0), s.loop("use", 0));
  expect_scheduled(s, before, "join_loops_earlier");
}

TEST(JoinLoops, RefusesLoopsThatAreNotAlike) {
  Schedule s(two_sums());
  expect_refused(
      s, [&] { join_loops(s, s.loop("squares", 0), s.loop("sum", 0)); }, "join_loops", 1, "join_loops_refused_1_order");
  expect_refused(
      s, [&] { join_loops(s, s.loop("sum", 1), s.loop("squares", 1)); }, "join_loops", 1, "join_loops_refused_1_place");
  split(s, s.loop("half", 0), 2);
  expect_refused(
      s, [&] { join_loops(s, s.loop("half", 0), s.loop("squares", 0)); }, "join_loops", 1,
      "join_loops_refused_1_range");
  parallel(s, s.loop("sum", 0), 1);
  expect_refused(
      s, [&] { join_loops(s, s.loop("sum", 0), s.loop("squares", 0)); }, "join_loops", 1, "join_loops_refused_1_kind");
}

TEST(JoinLoops, RefusesToPassWhatStandsBetween) {
  Schedule s(parse_func(R"(func between(x: f32[8], a: f32[8], b: f32[8], c: f32[8]) stage begin {
  block root() reads x[..], a[..], b[..] writes a[..], b[..], c[..] {
    for i in [0, 8) { block a(space vi in [0, 8) = i) reads x[vi] writes a[vi] { a[vi] = x[vi] + 1.0f32 } }
    for j in [0, 8) { block b(space vj in [0, 8) = j) reads a[7 - vj] writes b[vj] { b[vj] = a[7 - vj] * 2.0f32 } }
    for k in [0, 8) { block c(space vk in [0, 8) = k) reads b[vk] writes c[vk] { c[vk] = b[vk] - 3.0f32 } } } })"));
  expect_refused(s, [&] { join_loops(s, s.loop("a", 0), s.loop("c", 0)); }, "join_loops", 2, "join_loops_refused_2");
}

TEST(JoinLoops, RefusesWhatLaterIterationsHaveYetToWrite) {
  Schedule s(stages("t[vj + 1 if vj < 11]", "t[vj + 1]"));
  expect_refused(s, [&] { join_loops(s, s.loop("t", 0), s.loop("use", 0)); }, "join_loops", 3, "join_loops_refused_3");
}

/// Sums are not there before their last element is added.
TEST(JoinLoops, RefusesAReductionThatIsNotFinished) {
  Schedule s(two_sums());
  join_loops(s, s.loop("sum", 0), s.loop("squares", 0));
  expect_refused(
      s, [&] { join_loops(s, s.loop("sum", 1), s.loop("squares", 1)); }, "join_loops", 3, "join_loops_refused_3_sum");
}

TEST(JoinBlocks, KeepsWhatTheFirstStoresInARegister) {
  const Func before = stages("t[vj]", "t[vj]");
  Schedule s(before);
  join_loops(s, s.loop("t", 0), s.loop("use", 0));
  join_blocks(s, {"t"}, {"use"});
  vectorize(s, split(s, s.loop("t", 0), 5).second);
  expect_scheduled(s, before, "join_blocks");
}

TEST(JoinBlocks, JoinsMoreThanTwo) {
  const Func before = parse_func(R"(func three(x: f32[8], a: f32[8], b: f32[8], c: f32[8]) stage begin {
  block root() reads x[..], a[..] writes a[..], b[..], c[..] {
    for i in [0, 8) {
      block a(space vi in [0, 8) = i) reads x[vi] writes a[vi] { let y: f32 = x[vi] * x[vi]
        a[vi] = y - 1.0f32 }
      block b(space vj in [0, 8) = i) reads x[7 - vj] writes b[vj] { b[vj] = x[7 - vj] }
      block c(space vk in [0, 8) = i) reads a[vk], x[vk] writes c[vk] { let z: f32 = a[vk] + x[vk]
        c[vk] = z * z } } } })");
  Schedule s(before);
  join_blocks(s, {"b"}, {"c"});
  join_blocks(s, {"a"}, {"b"});
  expect_scheduled(s, before, "join_blocks_three");
}

TEST(JoinBlocks, Refuses) {
  Schedule apart(stages("t[vj]", "t[vj]"));
  expect_refused(apart, [&] { join_blocks(apart, {"t"}, {"use"}); }, "join_blocks", 1, "join_blocks_refused_1");
  Schedule s(two_sums());
  join_loops(s, join_loops(s, s.loop("sum", 0), s.loop("half", 0)), s.loop("squares", 0));
  expect_refused(s, [&] { join_blocks(s, {"half"}, {"squares"}); }, "join_blocks", 1, "join_blocks_refused_1_loops");
  Schedule reversed(parse_func(R"(func reversed(x: f32[8], a: f32[8], b: f32[8]) stage begin {
  block root() reads x[..] writes a[..], b[..] {
    for i in [0, 8) {
      block a(space vi in [0, 8) = i) reads x[vi] writes a[vi] { a[vi] = x[vi] }
      block b(space vj in [0, 8) = 7 - i) reads x[vj] writes b[vj] { b[vj] = x[vj] } } } })"));
  expect_refused(reversed, [&] { join_blocks(reversed, {"a"}, {"b"}); }, "join_blocks", 2, "join_blocks_refused_2");
  Schedule masked(parse_func(R"(func masked(x: f32[8], a: f32[8], b: f32[8]) stage begin {
  block root() reads x[..] writes a[..], b[..] {
    for i in [0, 8) {
      block a(space vi in [0, 8) = i) reads x[vi] writes a[vi] { a[vi] = x[vi] }
      block b(space vj in [0, 8) = i) reads x[vj] writes b[vj] { b[vj if vj < 5] = x[vj] } } } })"));
  expect_refused(masked, [&] { join_blocks(masked, {"a"}, {"b"}); }, "join_blocks", 3, "join_blocks_refused_3");
  Schedule ahead(stages("t[vj - 2 if vj >= 2]", "t[vj - 2]"));
  join_loops(ahead, ahead.loop("t", 0), ahead.loop("use", 0));
  expect_refused(ahead, [&] { join_blocks(ahead, {"t"}, {"use"}); }, "join_blocks", 4, "join_blocks_refused_4");
  Schedule again(parse_func(R"(func again(x: f32[8], a: f32[8]) stage begin {
  block root() reads x[..], a[..] writes x[..], a[..] {
    for i in [0, 8) {
      block a(space vi in [0, 8) = i) reads x[vi] writes a[vi] { a[vi] = x[vi] }
      block b(space vj in [0, 8) = i) reads x[vj] writes x[vj] { x[vj] = x[vj] * 2.0f32 } } } })"));
  expect_refused(again, [&] { join_blocks(again, {"a"}, {"b"}); }, "join_blocks", 4, "join_blocks_refused_4_write");
}

}  // namespace
}  // namespace lathe::testing
