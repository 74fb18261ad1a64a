#include "schedule/primitives/distribute.h"

#include "ir/text/parse.h"
#include "schedule/primitives/parallel.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// In each iteration t[i] = x[i] + 1, then sums of rows of y, then use[i] = INDEX of t.
Func by_turns(const std::string& index) {
  return parse_func(R"(func turns(x: f32[12], y: f32[12, 5], t: f32[12], sum: f32[12], use: f32[12]) stage begin {
  block root() reads x[..], y[..], t[..], sum[..] writes t[..], sum[..], use[..] {
    for i in [0, 12) {
      block t(space vi in [0, 12) = i) reads x[vi] writes t[vi] { t[vi] = x[vi] + 1.0f32 }
      for k in [0, 5) {
        block sum(space vr in [0, 12) = i, reduce vk in [0, 5) = k) reads y[vr, vk], sum[vr] writes sum[vr] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init { sum[vr] = 0.0f32 }
          let l: f32 = sum[vr]
          let r: f32 = y[vr, vk]
          sum[vr] = l + r } }
      block use(space vj in [0, 12) = i) reads t[..], sum[vj] writes use[vj] { use[vj] = )" +
                    index + R"( * sum[vj] } } } })");
}

TEST(Distribute, RunsWhatComesFirstInAllIterationsBeforeTheRest) {
  const Func before = by_turns("t[vj]");
  Schedule s(before);
  const LoopRef rest = distribute(s, s.loop("t", 0), {"sum"});
  EXPECT_EQ(s.loops({"use"}).front(), rest);
  distribute(s, rest, {"use"});
  expect_scheduled(s, before, "distribute");
}

TEST(Distribute, LetsTheRestReadWhatEarlierIterationsMade) {
  const Func before = by_turns("t[vj - 1 if vj >= 1]");
  Schedule s(before);
  distribute(s, s.loop("t", 0), {"use"});
  expect_scheduled(s, before, "distribute_earlier");
}

TEST(Distribute, Refuses) {
  Schedule s(by_turns("t[vj]"));
  expect_refused(s, [&] { distribute(s, s.loop("t", 0), {"t"}); }, "distribute", 1, "distribute_refused_1_first");
  expect_refused(s, [&] { distribute(s, s.loop("sum", 1), {"sum"}); }, "distribute", 1, "distribute_refused_1_alone");
  parallel(s, s.loop("t", 0), 1);
  expect_refused(s, [&] { distribute(s, s.loop("t", 0), {"use"}); }, "distribute", 1, "distribute_refused_1_kind");
  Schedule later(by_turns("t[vj + 1 if vj < 11]"));
  expect_refused(
      later, [&] { distribute(later, later.loop("t", 0), {"use"}); }, "distribute", 2, "distribute_refused_2");
}

}  // namespace
}  // namespace lathe::testing
