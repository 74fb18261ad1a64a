#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

const std::string turned = "turn the results of product around";

/// One multiply-add a cycle of vectors that are lines, and caches of 32 KiB, 1 MiB, and 64 MiB for all.
Device lines() {
  return fused(with_caches(std::int64_t{1} << 20), 1);
}

bool is_turned(int m, int n, int k, const Device& device) {
  return decides(product_of_columns(m, n, k), device, turned);
}

TEST(TurnResults, WhereColumnsLeaveLanesIdle) {
  EXPECT_TRUE(is_turned(100, 5, 40, lines()));
  EXPECT_TRUE(is_turned(256, 33, 60, lines()));
  EXPECT_FALSE(is_turned(100, 64, 40, lines())) << "no lane is";
  EXPECT_FALSE(is_turned(15, 5, 40, lines())) << "rows fill no vector";
  EXPECT_FALSE(is_turned(24, 24, 40, lines())) << "as many";
  EXPECT_FALSE(is_turned(100, 33, 2, lines())) << "turning would take longer than adding up";
  EXPECT_FALSE(decides(matmul(100, 5, 40, false), lines(), turned)) << "rows lie apart";
}

/// Two multiply-adds a cycle of half lines, and the same caches.
Device half_lines() {
  Device device = fused(with_caches(std::int64_t{1} << 20), 2);
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.mask_registers = 0;
  device.issue_width = 6;
  return device;
}

TEST(TurnResults, ComputesTheSame) {
  for (const int m : {48, 64, 101}) {
    for (const int n : {2, 5, 9}) {
      for (const Device& device : {lines(), half_lines()}) {
        SCOPED_TRACE(fmt::format("{} x {}", m, n));
        const std::string decisions = decisions_on(product_of_columns(m, n, 29), device, "product");
        EXPECT_TRUE(says(decisions, turned)) << decisions;
      }
    }
  }
  EXPECT_FALSE(is_turned(101, 5, 29, fused(narrow(), 2))) << "not timed with 128 bits";
  Device plain = half_lines();
  plain.fused_multiply_add = false;
  EXPECT_FALSE(is_turned(101, 5, 29, plain)) << "nor without multiply-adds";
}

/// The largest of zero and what products of a batch are beside a bias.
Func batch_with_epilogue(int batch, int m, int n, int k) {
  return parse_func(fmt::format(
      R"(func products(x: f32[{0}, {3}, {1}], y: f32[{0}, {3}, {2}], c: f32[{2}], out: f32[{0}, {1}, {2}]) stage begin {{
  block root() reads x[..], y[..], c[..], out[..] writes out[..] {{
    alloc sums: f32[{0}, {1}, {2}]
    for b in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {2}) {{ for k in [0, {3}) {{
      block product(space vb in [0, {0}) = b, space vi in [0, {1}) = i, space vj in [0, {2}) = j, reduce vk in [0, {3}) = k)
          reads sums[vb, vi, vj], x[vb, vk, vi], y[vb, vk, vj] writes sums[vb, vi, vj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ sums[vb, vi, vj] = 0.0f32 }}
        let l: f32 = sums[vb, vi, vj]
        let r: f32 = x[vb, vk, vi] * y[vb, vk, vj]
        sums[vb, vi, vj] = l + r }} }} }} }} }}
    for b1 in [0, {0}) {{ for i1 in [0, {1}) {{ for j1 in [0, {2}) {{
      block bias(space wb in [0, {0}) = b1, space wi in [0, {1}) = i1, space wj in [0, {2}) = j1)
          reads sums[wb, wi, wj], c[wj] writes out[wb, wi, wj] {{
        out[wb, wi, wj] = max(sums[wb, wi, wj] + c[wj], 0.0f32) }} }} }} }} }} }})",
      batch, m, n, k));
}

TEST(TurnResults, HasWhatReadsThemTurnThemBack) {
  const Func func = batch_with_epilogue(3, 100, 5, 40);
  EXPECT_NE(decisions_on(func, lines(), "product").find(turned), std::string::npos);
  const std::string text = print(auto_schedule(func, lines()));
  EXPECT_EQ(text.find("sums_copy"), std::string::npos) << "no copy stands between: " << text;
}

TEST(TurnResults, WhereRowsWouldBePackedOrPushEachOtherOut) {
  EXPECT_FALSE(is_turned(2000, 44, 300, lines())) << "streaming past so many takes longer than a few idle lanes";
  EXPECT_TRUE(is_turned(2048, 44, 300, lines())) << "lines of the steps lie in few sets";
  EXPECT_TRUE(is_turned(800, 200, 1000, lines())) << "rows would be packed";
  EXPECT_TRUE(is_turned(1000, 64, 1000, half_lines())) << "rows would be packed here, too";
  EXPECT_FALSE(is_turned(1000, 64, 5000, half_lines())) << "all tiles take them part by part";
}

/// The same of bytes, which are summed up as another type.
Func product_of_bytes(int m, int n, int k, const std::string& type) {
  const std::string zero = type == "i32" ? "0i32" : "0.0f32";
  std::string text = replaced_all(print(product_of_columns(m, n, k)), "0.0f32", zero);
  text = replaced_all(text, "f32", type);
  if (type == "f32") text = replaced_all(text, "0.0f32", zero);
  text = replaced_all(replaced_all(text, "x: " + type, "x: i8"), "y: " + type, "y: i8");
  return parse_func(
      replaced_all(text, "x[vk, vi] * y[vk, vj]", fmt::format("cast<{0}>(x[vk, vi]) * cast<{0}>(y[vk, vj])", type)));
}

TEST(TurnResults, BeforeWordsOfRowsAreMadeForDotProducts) {
  const Device dots = fused(dotting(), 2);
  EXPECT_TRUE(decides(product_of_bytes(100, 64, 400, "i32"), dots, turned))
      << "no lane is idle, but all of x would be turned around";
  EXPECT_FALSE(decides(product_of_columns(100, 64, 400), dots, turned));
  EXPECT_FALSE(decides(product_of_bytes(100, 64, 40, "i32"), dots, turned)) << "a short sum";
  EXPECT_FALSE(decides(product_of_bytes(100, 64, 400, "f32"), dots, turned)) << "no instruction sums bytes up so";
  for (const int n : {5, 17}) {
    const std::string decisions = decisions_on(product_of_bytes(50, n, 70, "i32"), dots, "product");
    EXPECT_TRUE(says(decisions, turned)) << decisions;
    EXPECT_TRUE(says(decisions, "tile product in dot products")) << decisions;
  }
}

TEST(TurnResults, KeepsDotProductsThatTurningWouldLose) {
  // Of two rows no words are made.
  const std::string decisions = decisions_on(product_of_bytes(400, 2, 80, "i32"), fused(dotting(), 2), "product");
  EXPECT_TRUE(says(decisions, "not " + turned + " for dot products")) << decisions;
  EXPECT_TRUE(says(decisions, "tile product in dot products")) << decisions;
}

TEST(FarParts, TakeRowsInBlocksWhoseResultsStayNear) {
  const auto blocks = [](int m, int n, const Device& device) {
    const std::string text = print(auto_schedule(product_of_columns(m, n, 5000), device));
    const size_t part = text.find("for ko in [0, 100)"), rows = text.rfind("parallel for io in [0, ", part);
    return part == std::string::npos || rows == std::string::npos ? 0 : std::stoi(text.substr(rows + 23));
  };
  Device device = lines();
  for (const int cores : {1, 2, 4}) {
    device.cores = cores;
    EXPECT_EQ(blocks(5000, 64, device), cores == 4 ? 8 : cores == 2 ? 6 : 5) << "the same parts on any number of cores";
  }
  EXPECT_EQ(blocks(4096, 64, device), 0) << "lines of the steps lie in few sets";
  EXPECT_EQ(blocks(5000, 256, device), 0) << "so many columns leave short pieces of rows";
  device.issue_width = 2;
  EXPECT_EQ(blocks(5000, 64, device), 0) << "not timed there";
}

TEST(FarParts, ComputeTheSameInBlocks) {
  Device device = half_lines();
  device.cores = 3;
  device.caches = {{4096, 64, 64, false}, {std::int64_t{1} << 19, 16, 64, false}};
  const Func func = product_of_columns(2101, 16, 512), scheduled = auto_schedule(func, device);
  const std::string text = print(scheduled);
  const size_t blocks = text.find("parallel for io in [0, 6)");
  ASSERT_NE(blocks, std::string::npos) << text;
  EXPECT_LT(blocks, text.find("for ko in [0, 8)")) << text;
  EXPECT_NE(text.find("prefetch_param_0"), std::string::npos) << text;
  expect_same(func, scheduled);
}

}  // namespace
}  // namespace lathe::testing
