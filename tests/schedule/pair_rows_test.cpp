/// Two rows side by side, where rows are reduced and passed over again.
#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Rows less their sum, times weights.
Func rows_less_sums(int rows, int columns, const std::string& function = "") {
  return parse_func(fmt::format(R"(func f(x: f32[{0}, {1}], w: f32[{1}], out: f32[{0}, {1}]) stage begin {{
  block root() reads x[..], w[..] writes out[..] {{
    alloc sum: f32[{0}]
    alloc mean: f32[{0}]
    for i in [0, {0}) {{ for j in [0, {1}) {{
      block sum(space vi in [0, {0}) = i, reduce vj in [0, {1}) = j) reads sum[vi], x[vi, vj] writes sum[vi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ sum[vi] = 0.0f32 }}
        let old: f32 = sum[vi]
        let new: f32 = {2}(x[vi, vj])
        sum[vi] = old + new }} }} }}
    for i in [0, {0}) {{
      block mean(space vi in [0, {0}) = i) reads sum[vi] writes mean[vi] {{ mean[vi] = sum[vi] / {1}.0f32 }} }}
    for i in [0, {0}) {{ for j in [0, {1}) {{
      block less(space vi in [0, {0}) = i, space vj in [0, {1}) = j) reads x[vi, vj], mean[vi], w[vj] writes out[vi, vj] {{
        out[vi, vj] = (x[vi, vj] - mean[vi]) * w[vj] }} }} }} }} }})",
                                rows, columns, function));
}

/// A last cache of so many bytes.
Device with_cache(std::int64_t bytes) {
  Device device = wide();
  device.caches = {{16 << 10, 8, 64, false}, {bytes, 16, 64, true}};
  return device;
}

bool pairs(const Func& func, const Device& device) {
  return print(auto_schedule(func, device)).find("unrolled for ii_3 in [0, 2)") != std::string::npos;
}

constexpr std::int64_t large = 1 << 20;

TEST(PairRows, TakesTwoRowsAtEachStepOfEachPass) {
  const Func func = rows_less_sums(32, 112);
  const std::string text = print(auto_schedule(func, with_cache(large)));
  SCOPED_TRACE(text);
  expect_same(func, auto_schedule(func, with_cache(large)));
  EXPECT_TRUE(pairs(func, with_cache(large)));
  EXPECT_NE(text.find("sum: f32[32] @register"), std::string::npos) << "which both rows keep their sums in";
}

TEST(PairRows, NotWhereOneAtATimeIsAsFast) {
  EXPECT_FALSE(pairs(rows_less_sums(33, 112), with_cache(large))) << "a row would be left";
  EXPECT_FALSE(pairs(rows_less_sums(6, 112), with_cache(large))) << "too few for the cores";
  EXPECT_FALSE(pairs(rows_less_sums(32, 100), with_cache(large))) << "rows with a rest";
  EXPECT_FALSE(pairs(rows_less_sums(32, 1024), with_cache(large))) << "rows meet in their low bits";
  EXPECT_FALSE(pairs(rows_less_sums(32, 3000), with_cache(4 * large))) << "long rows";
  EXPECT_FALSE(pairs(rows_less_sums(32, 112), with_cache(2 * 32 * 112 * 4))) << "from beyond the last cache";
  EXPECT_FALSE(pairs(rows_less_sums(32, 112, "exp"), with_cache(large))) << "the sums' ends count for little";
  EXPECT_FALSE(pairs(rows_less_sums(32, 112), wide())) << "nothing is known of its caches";
  Device asks = with_cache(large);
  asks.stream_ahead_bytes = 256;
  EXPECT_FALSE(pairs(rows_less_sums(100, 112), asks)) << "which asks for one row as it streams";
}

TEST(PairRows, NotWhereVectorsOfOneRowFillHalfOfTheRegisters) {
  // 24 sums of half a register's lanes are in as many registers.
  const std::string decisions = decisions_on(matmul(1024, 24, 160, false), fused(with_cache(32 * large), 1), "");
  EXPECT_NE(decisions.find("tile product: 8 rows x 3 vectors of 8 lanes"), std::string::npos) << decisions;
  EXPECT_EQ(decisions.find("side by side"), std::string::npos) << decisions;
}

}  // namespace
}  // namespace lathe::testing
