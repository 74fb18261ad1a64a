#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/shift_operand.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

/// shift_operand, and the rule that lays contractions out for a device's dot products.
namespace lathe::testing {
namespace {

Func product(const std::string& a, const std::string& b, int m, int n, int k, const std::string& behind = "t[zi, zj]") {
  return parse_func(fmt::format(R"(func product(a: {0}[{2}, {4}], b: {1}[{4}, {3}], out: i32[{2}, {3}]) stage begin {{
  block root() reads a[..], b[..] writes out[..] {{
    alloc t: i32[{2}, {3}]
    for i in [0, {2}) {{ for j in [0, {3}) {{ for k in [0, {4}) {{
      block dot(space vi in [0, {2}) = i, space vj in [0, {3}) = j, reduce vk in [0, {4}) = k)
          reads t[vi, vj], a[vi, vk], b[vk, vj] writes t[vi, vj] {{
        reducer (lhs: i32) (rhs: i32) {{lhs + rhs}} identity {{0i32}}
        init {{ t[vi, vj] = 0i32 }}
        let l: i32 = t[vi, vj]
        let r: i32 = cast<i32>(a[vi, vk]) * cast<i32>(b[vk, vj])
        t[vi, vj] = l + r }} }} }} }}
    for i2 in [0, {2}) {{ for j2 in [0, {3}) {{
      block store(space zi in [0, {2}) = i2, space zj in [0, {3}) = j2) reads t[zi, zj] writes out[zi, zj] {{
        out[zi, zj] = {5} }} }} }} }} }})",
                                a, b, m, n, k, behind));
}

TEST(ShiftOperand, MakesSignedBytesUnsigned) {
  const Func before = product("i8", "i8", 3, 5, 4);
  Schedule s(before);
  EXPECT_EQ(shift_operand(s, {"dot"}, "b").name, "b_shifted");
  expect_scheduled(s, before, "shift_operand");
}

TEST(ShiftOperand, MakesUnsignedBytesSigned) {
  const Func before = product("u8", "u8", 3, 5, 4, "max(t[zi, zj], 0i32) + t[zi, zj]");
  Schedule s(before);
  shift_operand(s, {"dot"}, "a");
  expect_scheduled(s, before, "shift_operand_unsigned");
}

TEST(ShiftOperand, CorrectsReadersInATile) {
  const Func before = product("i8", "i8", 3, 5, 4);
  Schedule s(before);
  blockize(s, s.loop("store", 0));
  shift_operand(s, {"dot"}, "b");
  expect_scheduled(s, before, "shift_operand_tile");
}

TEST(ShiftOperand, RefusesWhatIsNoSumOfProductsOfBytes) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { shift_operand(s, {"product"}, "b"); }, "shift_operand", 1, "shift_operand_refused_1");
  Schedule t(product("i8", "i8", 3, 5, 4));
  split(t, t.loop("dot", 2), 2);
  expect_refused(t, [&] { shift_operand(t, {"dot"}, "b"); }, "shift_operand", 1, "shift_operand_refused_1_split");
}

TEST(ShiftOperand, RefusesABufferThatIsNoFactor) {
  Schedule s(product("i8", "i8", 3, 5, 4));
  expect_refused(s, [&] { shift_operand(s, {"dot"}, "t"); }, "shift_operand", 2, "shift_operand_refused_2");
}

TEST(ShiftOperand, RefusesAResultThatOthersSeeAsItIs) {
  Schedule s(parse_func(R"(func product(a: i8[2, 4], b: i8[4, 3], out: i32[2, 3]) stage begin {
  for i in [0, 2) { for j in [0, 3) { for k in [0, 4) {
    block dot(space vi in [0, 2) = i, space vj in [0, 3) = j, reduce vk in [0, 4) = k)
        reads out[vi, vj], a[vi, vk], b[vk, vj] writes out[vi, vj] {
      reducer (lhs: i32) (rhs: i32) {lhs + rhs} identity {0i32}
      init { out[vi, vj] = 0i32 }
      let l: i32 = out[vi, vj]
      let r: i32 = cast<i32>(a[vi, vk]) * cast<i32>(b[vk, vj])
      out[vi, vj] = l + r } } } } })"));
  expect_refused(s, [&] { shift_operand(s, {"dot"}, "b"); }, "shift_operand", 3, "shift_operand_refused_3");
}

TEST(ShiftOperand, RefusesAFactorThatTheNestWrites) {
  Schedule s(parse_func(R"(func product(a: i8[2, 4], b: i8[4, 3], out: i32[2, 3]) stage begin {
  block root() reads a[..], b[..] writes out[..], b[..] {
    alloc t: i32[2, 3]
    for again in [0, 2) {
      for i in [0, 2) { for j in [0, 3) { for k in [0, 4) {
        block dot(space vi in [0, 2) = i, space vj in [0, 3) = j, reduce vk in [0, 4) = k)
            reads t[vi, vj], a[vi, vk], b[vk, vj] writes t[vi, vj] {
          reducer (lhs: i32) (rhs: i32) {lhs + rhs} identity {0i32}
          init { t[vi, vj] = 0i32 }
          let l: i32 = t[vi, vj]
          let r: i32 = cast<i32>(a[vi, vk]) * cast<i32>(b[vk, vj])
          t[vi, vj] = l + r } } } }
      for i2 in [0, 2) { for j2 in [0, 3) {
        block store(space zi in [0, 2) = i2, space zj in [0, 3) = j2) reads t[zi, zj] writes out[zi, zj] {
          out[zi, zj] = t[zi, zj] } } }
      for i3 in [0, 4) { for j3 in [0, 3) {
        block change(space yi in [0, 4) = i3, space yj in [0, 3) = j3) writes b[yi, yj] {
          b[yi, yj] = 1i8 } } } } } })"));
  expect_refused(s, [&] { shift_operand(s, {"dot"}, "b"); }, "shift_operand", 4, "shift_operand_refused_4");
}

TEST(ShiftOperand, RefusesAFactorWithGaps) {
  Schedule s(parse_func(R"(func product(a: i8[2, 4], x: i8[4, 3], out: i32[2, 3]) stage begin {
  block root() reads a[..], x[..] writes out[..] {
    alloc b: i8[4, 3]
    alloc t: i32[2, 3]
    for i in [0, 4) { for j in [0, 3) {
      block copy(space vi in [0, 4) = i, space vj in [0, 3) = j) reads x[vi, vj] writes b[vi, vj] {
        b[vi, vj] = x[vi, vj] } } }
    for i in [0, 2) { for j in [0, 3) { for k in [0, 4) {
      block dot(space vi in [0, 2) = i, space vj in [0, 3) = j, reduce vk in [0, 4) = k)
          reads t[vi, vj], a[vi, vk], b[vk, vj] writes t[vi, vj] {
        reducer (lhs: i32) (rhs: i32) {lhs + rhs} identity {0i32}
        init { t[vi, vj] = 0i32 }
        let l: i32 = t[vi, vj]
        let r: i32 = cast<i32>(a[vi, vk]) * cast<i32>(b[vk, vj])
        t[vi, vj] = l + r } } } }
    for i2 in [0, 2) { for j2 in [0, 3) {
      block store(space zi in [0, 2) = i2, space zj in [0, 3) = j2) reads t[zi, zj] writes out[zi, zj] {
        out[zi, zj] = t[zi, zj] } } } } })"));
  transform_layout(s, {"copy"}, "b", parse_layout_map("i, j -> i * 5 + j"));
  expect_refused(s, [&] { shift_operand(s, {"dot"}, "b"); }, "shift_operand", 5, "shift_operand_refused_5");
}

void expect_rule(const Func& before, const std::string& name) {
  ScheduleLog log;
  const Func after = auto_schedule(before, dotting(), &log);
  expect_same_results(before, after);
  expect_golden(print(after), name + ".tir");
  EXPECT_NE(print(after).find("tensorize: \"dot4\""), std::string::npos)
      << fmt::format("{}", fmt::join(log.decisions, "\n"));
}

TEST(AutoDot, LaysBytesOutInGroups) {
  expect_rule(product("u8", "i8", 12, 32, 64), "auto_dot");
}

TEST(AutoDot, ShiftsBytesAndPadsGroups) {
  expect_rule(product("i8", "i8", 6, 16, 10), "auto_dot_shifted");
}

/// out[i, j] = sum over k of x[k, i] * y[k, j], of signed bytes.
Func bytes_of_columns(int m, int n, int k) {
  std::string text = print(product_of_columns(m, n, k));
  text = replaced_all(replaced_all(text, "x: f32", "x: i8"), "y: f32", "y: i8");
  text = replaced_all(replaced_all(text, "f32", "i32"), "0.0i32", "0i32");
  return parse_func(replaced_all(text, "x[vk, vi] * y[vk, vj]", "cast<i32>(x[vk, vi]) * cast<i32>(y[vk, vj])"));
}

TEST(AutoDot, SumsColumnsThatAreOffByTheShiftInVectors) {
  const Func func = bytes_of_columns(32, 32, 400);
  EXPECT_TRUE(says(decisions_on(func, dotting(), "product_shift"), "tile the reduction product_shift"))
      << decisions_on(func, dotting(), "product_shift");
}

TEST(AutoDot, TurnsRowsAroundBeforeItPadsThem) {
  const Func func = bytes_of_columns(32, 32, 401);
  EXPECT_TRUE(says(decisions_on(func, dotting(), "x_copy"), "turn squares of x_copy"))
      << decisions_on(func, dotting(), "x_");
  EXPECT_TRUE(says(decisions_on(func, dotting(), "x_pad"), "vectorize x_pad over"));
  const Func even = bytes_of_columns(32, 32, 400);
  EXPECT_FALSE(says(decisions_on(even, dotting(), "x_pad"), "vectorize x_pad over"));
}

TEST(AutoDot, FillsTwoColumnsUpToLanesThatHaveAnInstruction) {
  const Func func = product("u8", "i8", 24, 2, 40);
  expect_same_results(func, auto_schedule(func, dotting()));
  EXPECT_TRUE(decides(func, dotting(), "tile dot: 12 rows x 1 vectors of 4 lanes of dot4"))
      << decisions_on(func, dotting(), "dot");
  EXPECT_TRUE(decides(product("u8", "i8", 8, 2, 40), dotting(), "tile dot: 8 rows x 1 vectors of 2 lanes of dot4"))
      << "few rows read what is laid out";
}

TEST(AutoDot, SharesOutRowsOfOnePanel) {
  Device device = dotting();
  device.cores = 2;
  // The results are kept and read once more, under a condition on the columns of the one panel.
  const Func func =
      product("u8", "i8", 4001, 13, 64, "t[zi, zj] * t[zi, zj] + min(t[zi, zj], 3i32) * max(t[zi, zj], 7i32)");
  EXPECT_TRUE(decides(func, device, "part what the loop over"));
  const Func after = auto_schedule(func, device);
  EXPECT_NE(print(after).find("parallel for i2o"), std::string::npos) << print(after);
}

TEST(AutoDot, AsksAheadInPanelsThatTheFirstCacheDoesNotHold) {
  const auto asks = [](int depth, int products_a_cycle) {
    Device device = dotting();
    device.vector_bits = 512;
    device.fma_per_cycle = products_a_cycle;
    device.caches = {{1 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
    const Func before = product("u8", "i8", 12, 32, depth), after = auto_schedule(before, device);
    expect_same_results(before, after);
    return print(after).find("prefetch_offset") != std::string::npos;
  };
  EXPECT_TRUE(asks(64, 2));
  EXPECT_FALSE(asks(16, 2)) << "a panel stays in the first cache";
  EXPECT_FALSE(asks(64, 1)) << "loads have time to spare";
}

TEST(AutoDot, WalksAllPanelsForEachTileOfRowsWhereOnlyResultsLeaveTheCaches) {
  const auto keeps = [](int rows, int depth) {
    Device device = dotting();
    device.vector_bits = 512;
    device.caches = {{8 << 10, 8, 64, false}, {64 << 10, 16, 64, false}};
    const Func before = product("u8", "i8", rows, 320, depth);
    ScheduleLog log;
    const Func after = auto_schedule(before, device, &log);
    if (rows * depth < 1000) expect_same_results(before, after);
    return fmt::format("{}", fmt::join(log.decisions, "\n")).find("keep all panels of dot near") != std::string::npos;
  };
  EXPECT_TRUE(keeps(200, 4));
  EXPECT_FALSE(keeps(200, 400)) << "panels leave the caches as well";
  EXPECT_FALSE(keeps(12, 8)) << "results stay near";
}

TEST(AutoDot, KeepsNarrowWhatIsMadeForIt) {
  const Func before = parse_func(
      R"(func quantized(x: f32[12, 64], b: i8[64, 32], out: i32[12, 32]) stage begin {
  block root() reads x[..], b[..] writes out[..] {
    alloc narrow: u8[12, 64]
    alloc wide: i32[12, 64]
    for i in [0, 12) { for k in [0, 64) {
      block make(space vi in [0, 12) = i, space vk in [0, 64) = k) reads x[vi, vk] writes narrow[vi, vk] {
        narrow[vi, vk] = cast<u8>(x[vi, vk] * 9.0f32) } } }
    for i1 in [0, 12) { for k1 in [0, 64) {
      block widen(space vi in [0, 12) = i1, space vk in [0, 64) = k1) reads narrow[vi, vk] writes wide[vi, vk] {
        wide[vi, vk] = cast<i32>(narrow[vi, vk]) } } }
    for i2 in [0, 12) { for j in [0, 32) { for k2 in [0, 64) {
      block dot(space vi in [0, 12) = i2, space vj in [0, 32) = j, reduce vk in [0, 64) = k2)
          reads out[vi, vj], wide[vi, vk], b[vk, vj] writes out[vi, vj] {
        reducer (lhs: i32) (rhs: i32) {lhs + rhs} identity {0i32}
        init { out[vi, vj] = 0i32 }
        let l: i32 = out[vi, vj]
        let r: i32 = wide[vi, vk] * cast<i32>(b[vk, vj])
        out[vi, vj] = l + r } } } }
  }
})");
  EXPECT_NE(print(auto_schedule(before, dotting())).find("tensorize: \"dot4\""), std::string::npos);
  Device without = dotting();
  without.intrinsics.clear();
  EXPECT_EQ(print(auto_schedule(before, without)).find("narrow"), std::string::npos);
}

TEST(AutoDot, LeavesWhatHasNoInstruction) {
  for (const Func& func : {product("u8", "i8", 2, 32, 64), product("u8", "i8", 16, 32, 3), program("matmul")}) {
    const Func after = auto_schedule(func, dotting());
    expect_same(func, after);
    EXPECT_EQ(print(after).find("tensorize"), std::string::npos) << print(after);
  }
}

}  // namespace
}  // namespace lathe::testing
