#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/group_bytes.h"
#include "schedule/primitives/split.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

/// group_bytes, and the rule that has convolutions of bytes run on a device's dot products.
namespace lathe::testing {
namespace {

struct Shape {
  int channels, size, filters, taps = 3, step = 1, groups = 1;
};

/// A convolution of x, padded by one, with w.
Func convolution(const std::string& a, const std::string& b, const Shape& s) {
  const int inside = s.size + 1, rows = (s.size + 2 - s.taps) / s.step + 1, depth = s.channels / s.groups;
  const std::string row = fmt::format("vi * {} + vr", s.step), column = fmt::format("vj * {} + vs", s.step),
                    channel = s.groups == 1 ? "vc" : fmt::format("vf // {} * {} + vc", s.filters / s.groups, depth),
                    within = fmt::format("0 < {0} && {0} < {2} && 0 < {1} && {1} < {2}", row, column, inside),
                    place = fmt::format("{}, {} - 1, {} - 1", channel, row, column);
  const std::string sum = a == "bf16" ? "f32" : "i32", zero = a == "bf16" ? "0.0f32" : "0i32";
  return parse_func(fmt::format(
      R"(func convolution(x: {0}[{2}, {3}, {3}], w: {1}[{4}, {5}, {6}, {6}], out: {10}[{4}, {7}, {7}]) stage begin {{
  block root() reads x[..], w[..] writes out[..] {{
    alloc t: {10}[{4}, {7}, {7}]
    for f in [0, {4}) {{ for i in [0, {7}) {{ for j in [0, {7}) {{
      for c in [0, {5}) {{ for r in [0, {6}) {{ for s in [0, {6}) {{
        block sum(space vf in [0, {4}) = f, space vi in [0, {7}) = i, space vj in [0, {7}) = j,
            reduce vc in [0, {5}) = c, reduce vr in [0, {6}) = r, reduce vs in [0, {6}) = s)
            reads t[vf, vi, vj], x[{8}], w[vf, vc, vr, vs] writes t[vf, vi, vj] {{
          reducer (lhs: {10}) (rhs: {10}) {{lhs + rhs}} identity {{{11}}}
          init {{ t[vf, vi, vj] = {11} }}
          let sums: {10} = t[vf, vi, vj]
          let term: {10} = select({9}, cast<{10}>(x[{8} if {9}]), {11}) * cast<{10}>(w[vf, vc, vr, vs])
          t[vf, vi, vj] = sums + term }} }} }} }} }} }} }}
    for f2 in [0, {4}) {{ for i2 in [0, {7}) {{ for j2 in [0, {7}) {{
      block store(space zf in [0, {4}) = f2, space zi in [0, {7}) = i2, space zj in [0, {7}) = j2)
          reads t[zf, zi, zj] writes out[zf, zi, zj] {{
        out[zf, zi, zj] = t[zf, zi, zj] }} }} }} }} }} }})",
      a, b, s.channels, s.size, s.filters, depth, s.taps, rows, place, within, sum, zero));
}

TEST(GroupBytes, TakesFourStepsAtOnce) {
  const Func before = convolution("u8", "i8", {8, 4, 3});
  Schedule s(before);
  const auto copies = group_bytes(s, {"sum"}, s.loop("sum", 3));
  EXPECT_EQ(copies[0].name, "x_bytes");
  EXPECT_EQ(copies[1].name, "w_bytes");
  expect_scheduled(s, before, "group_bytes");
}

TEST(GroupBytes, TakesTwoStepsOfHalvesAtOnce) {
  const Func before = convolution("bf16", "bf16", {5, 4, 3});
  Schedule s(before);
  const auto copies = group_bytes(s, {"sum"}, s.loop("sum", 3));
  EXPECT_EQ(copies[0].name, "x_pairs");
  EXPECT_EQ(copies[1].name, "w_pairs");
  expect_scheduled(s, before, "group_bytes_halves");
}

TEST(GroupBytes, FillsTheLastWordWithZeros) {
  for (const int channels : {3, 6}) {
    const Func before = convolution("i8", "i8", {channels, 4, 3});
    Schedule s(before);
    group_bytes(s, {"sum"}, s.loop("sum", 3));
    expect_scheduled(s, before, fmt::format("group_bytes_{}", channels));
  }
}

TEST(GroupBytes, TakesGroupsOfChannels) {
  const Func before = convolution("u8", "u8", {8, 4, 4, 3, 1, 2});
  Schedule s(before);
  group_bytes(s, {"sum"}, s.loop("sum", 3));
  expect_scheduled(s, before, "group_bytes_grouped");
}

TEST(GroupBytes, RefusesWhatIsNoSumOfProductsOfBytes) {
  Schedule s(program("matmul"));
  expect_refused(
      s, [&] { group_bytes(s, {"product"}, s.loop("product", 2)); }, "group_bytes", 1, "group_bytes_refused_1");
  Schedule t(convolution("u8", "i8", {8, 4, 3}));
  const LoopRef inner = split(t, t.loop("sum", 3), 4).second;
  expect_refused(t, [&] { group_bytes(t, {"sum"}, inner); }, "group_bytes", 1, "group_bytes_refused_1_split");
}

TEST(GroupBytes, RefusesAnIterThatIsNoneOfBothFactorsAlone) {
  Schedule s(convolution("u8", "i8", {8, 4, 3}));
  expect_refused(s, [&] { group_bytes(s, {"sum"}, s.loop("sum", 4)); }, "group_bytes", 2, "group_bytes_refused_2");
  Schedule t(convolution("u8", "i8", {6, 4, 4, 3, 1, 2}));
  expect_refused(
      t, [&] { group_bytes(t, {"sum"}, t.loop("sum", 3)); }, "group_bytes", 2, "group_bytes_refused_2_grouped");
}

TEST(AutoGroupBytes, RunsConvolutionsOnDotProducts) {
  for (const auto& [a, b] : {std::pair("u8", "i8"), std::pair("i8", "i8"), std::pair("u8", "u8")}) {
    for (const Shape& shape : {Shape{8, 9, 10}, {3, 8, 12, 3, 2}, {16, 6, 8, 3, 1, 2}, {7, 5, 9, 1}}) {
      const Func before = convolution(a, b, shape), after = auto_schedule(before, dotting());
      expect_same_results(before, after);
      EXPECT_NE(print(after).find("dot_bytes"), std::string::npos) << print(after);
    }
  }
  expect_golden(print(auto_schedule(convolution("i8", "i8", {8, 9, 10}), dotting())), "auto_group_bytes.tir");
}

/// x[i, k] * w[j, k] where the weights lie along the sum, else x[i, k] * w[k, j].
Func product_of_halves(bool along, int m = 32, int n = 48, int k = 64) {
  return parse_func(fmt::format(
      R"(func product(x: bf16[{2}, {4}], w: bf16[{0}], out: f32[{2}, {3}]) stage begin {{
  for i in [0, {2}) {{ for j in [0, {3}) {{ for k in [0, {4}) {{
    block sum(space vi in [0, {2}) = i, space vj in [0, {3}) = j, reduce vk in [0, {4}) = k)
        reads x[vi, vk], w[{1}], out[vi, vj] writes out[vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj] = 0.0f32 }}
      let l: f32 = out[vi, vj]
      let r: f32 = cast<f32>(x[vi, vk]) * cast<f32>(w[{1}])
      out[vi, vj] = l + r }} }} }} }} }})",
      along ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n), along ? "vj, vk" : "vk, vj", m, n, k));
}

/// Multiplies and adds two bf16 at a time.
Device halving() {
  Device device = dotting();
  device.intrinsics = {parse_func(R"(func dot2(a: bf16[2], b: bf16[2], c: f32[]) {
    for t in [0, 2) { c[] = c[] + cast<f32>(a[t]) * cast<f32>(b[t]) }
  })")};
  return device;
}

TEST(AutoGroupBytes, RunsConvolutionsOfHalvesOnDotProducts) {
  for (const Shape& shape : {Shape{8, 9, 10}, {3, 8, 12, 3, 2}, {16, 6, 8, 3, 1, 2}, {7, 5, 9, 1}}) {
    const Func before = convolution("bf16", "bf16", shape), after = auto_schedule(before, halving());
    EXPECT_NE(print(after).find("dot_halves"), std::string::npos) << print(after);
  }
}

TEST(AutoGroupBytes, MakesWordsOfHalvesThatLieSideBySideAlongTheSum) {
  EXPECT_NE(print(auto_schedule(product_of_halves(true), halving())).find("dot_halves"), std::string::npos);
  EXPECT_EQ(print(auto_schedule(product_of_halves(false), halving())).find("dot_halves"), std::string::npos);
}

TEST(AutoGroupBytes, LeavesAnArrayThatIsBothFactorsToDotProducts) {
  const Func func = parse_func(R"(func own(x: bf16[24, 48], out: f32[48, 48]) stage begin {
  for i in [0, 48) { for j in [0, 48) { for k in [0, 24) {
    block own(space vi in [0, 48) = i, space vj in [0, 48) = j, reduce vk in [0, 24) = k)
        reads x[vk, vi], x[vk, vj], out[vi, vj] writes out[vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vj] = 0.0f32 }
      let sum: f32 = out[vi, vj]
      let term: f32 = cast<f32>(x[vk, vi]) * cast<f32>(x[vk, vj])
      out[vi, vj] = sum + term } } } } })");
  const Func after = auto_schedule(func, halving());
  EXPECT_NE(print(after).find("tensorize: \"dot2\""), std::string::npos) << print(after);
  expect_same_results(func, after);
}

TEST(AutoGroupBytes, TilesWithoutWordsWhatWordsLeaveUntiled) {
  // Three filters over an image with channels last: too few for vectors, which lie along the turned image.
  const Func func = parse_func(R"(func few(x: bf16[13, 13, 32], w: bf16[3, 32, 3, 3], out: f32[3, 11, 11]) stage begin {
  for f in [0, 3) { for i in [0, 11) { for j in [0, 11) { for r in [0, 3) { for c in [0, 32) { for s in [0, 3) {
    block few(space vf in [0, 3) = f, space vi in [0, 11) = i, space vj in [0, 11) = j, reduce vr in [0, 3) = r,
              reduce vc in [0, 32) = c, reduce vs in [0, 3) = s)
        reads x[vi + vr, vj + vs, vc], w[vf, vc, vr, vs], out[vf, vi, vj] writes out[vf, vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vf, vi, vj] = 0.0f32 }
      let sum: f32 = out[vf, vi, vj]
      let term: f32 = cast<f32>(x[vi + vr, vj + vs, vc]) * cast<f32>(w[vf, vc, vr, vs])
      out[vf, vi, vj] = sum + term } } } } } } } })");
  EXPECT_NE(decisions_on(func, halving(), "few").find("tile few: 3 rows x "), std::string::npos)
      << decisions_on(func, halving(), "few");
  expect_same_results(func, auto_schedule(func, halving()));
}

TEST(AutoGroupBytes, WalksAllPanelsOfWordsForEachTileOfRowsWhereOnlyResultsLeaveTheCaches) {
  Device device = halving();
  device.caches = {{4 << 10, 8, 64, false}, {16 << 10, 16, 64, false}};
  const Func func = product_of_halves(true, 400, 480, 16);
  EXPECT_NE(decisions_on(func, device, "sum").find("order the loops around the tiles of sum"), std::string::npos)
      << decisions_on(func, device, "sum");
}

TEST(AutoGroupBytes, LeavesWhatHasNoChannelsToGroupOrIsReadFewTimes) {
  for (const Shape& shape : {Shape{8, 9, 8, 3, 1, 8}, {6, 9, 4, 3, 1, 2}, {8, 3, 2, 1}}) {
    const Func before = convolution("u8", "i8", shape), after = auto_schedule(before, dotting());
    expect_same_results(before, after);
    EXPECT_EQ(print(after).find("dot_bytes"), std::string::npos) << print(after);
  }
}

}  // namespace
}  // namespace lathe::testing
