#include <fmt/ranges.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Caches so small that any product's operands come from beyond.
Device far_from_memory(Device device) {
  device.caches = {{128, 8, 64, false}, {256, 8, 64, false}, {4096, 16, 64, true}};
  return device;
}

TEST(AutoSchedule, StreamsTheRowsOfAnOperandThatIsReadOnce) {
  for (const int m : {1, 3, 8}) {
    for (const int n : {16, 33, 70}) {
      for (const int k : {9, 16, 19}) {
        SCOPED_TRACE(fmt::format("{} x {} x {}", m, n, k));
        const Func func = matmul(m, n, k, false);
        for (const Device& device : {far_from_memory(wide()), far_from_memory(narrow())}) {
          EXPECT_NE(decisions_on(func, device, "product").find("stream product: "), std::string::npos);
        }
      }
    }
  }
  expect_golden(print(auto_schedule(matmul(2, 70, 20, false), far_from_memory(wide()))), "auto_streamed.tir");
  // Several tiles of rows read the operand again, and what the caches hold may be walked in any order.
  EXPECT_EQ(decisions_on(matmul(9, 70, 20, false), far_from_memory(wide()), "product").find("stream"),
            std::string::npos);
  Device roomy = far_from_memory(wide());
  roomy.caches[1].bytes = std::int64_t{70} * 20 * 4;
  EXPECT_EQ(decisions_on(matmul(1, 70, 20, false), roomy, "product").find("stream"), std::string::npos);
}

/// Two multiply-adds a cycle of vectors that are lines of the first cache.
Device lines() {
  Device device = wide();
  device.fma_per_cycle = 2;
  device.caches = {{4096, 8, 64, false}, {32768, 16, 64, false}};
  return device;
}

TEST(AutoSchedule, SharesRowsElementsAndAsksForNextRowsWhereMultiplicationsLeaveLoadsNoTime) {
  const auto streams = [](int m, const Device& device) {
    return decisions_on(matmul(m, 100, 260, false), device, "product");
  };
  EXPECT_NE(streams(4, lines()).find("stream product: 4 rows x 2 vectors of 16 lanes"), std::string::npos);
  EXPECT_NE(streams(13, lines()).find("stream product: 13 rows x 2 vectors"), std::string::npos);
  EXPECT_NE(streams(16, lines()).find("stream product: 8 rows x 3 vectors"), std::string::npos);
  EXPECT_NE(streams(20, lines()).find("stream product: 10 rows x 2 vectors"), std::string::npos);
  for (const int m : {17, 32}) EXPECT_EQ(streams(m, lines()).find("stream product: "), std::string::npos) << m;
  const auto asks = [](int m) {
    const std::string text = print(auto_schedule(matmul(m, 100, 260, false), lines()));
    return text.find("prefetch_cache: 2, prefetch_param_1: ") != std::string::npos;
  };
  EXPECT_TRUE(asks(6));
  EXPECT_TRUE(asks(16));
  EXPECT_FALSE(asks(4));
  EXPECT_EQ(decisions_on(matmul(16, 200, 140, false), lines(), "product").find("stream product: "), std::string::npos)
      << "short sums of so many rows";
  Device slower = lines();
  slower.fma_per_cycle = 1;
  slower.streams_at_once = 4;
  EXPECT_NE(streams(4, slower).find("stream product: 4 rows x 1 vectors of 16 lanes"), std::string::npos);
  EXPECT_EQ(streams(13, slower).find("stream product: "), std::string::npos);
}

TEST(AutoSchedule, ReadsAsManyRowsByTurnsAsHardwareFollows) {
  Device device = far_from_memory(narrow());
  const auto at_once = [&](int most) {
    device.streams_at_once = most;
    const Func func = matmul(2, 70, 24, false);
    EXPECT_NE(decisions_on(func, device, "product").find("stream product: "), std::string::npos);
    const std::string text = print(auto_schedule(func, device));
    return text.find(fmt::format("for ki in [0, {})", std::min(most, 8))) != std::string::npos;
  };
  for (const int most : {2, 4, 8, 12}) EXPECT_TRUE(at_once(most)) << most;
  device.streams_at_once = 4;
  device.stream_piece_bytes = 512;
  device = fused(device, 2);
  EXPECT_EQ(decisions_on(matmul(12, 70, 300, false), device, "product").find("stream product: "), std::string::npos)
      << "tiles of many rows want eight";
  device.streams_at_once = 8;
  EXPECT_EQ(decisions_on(matmul(12, 70, 300, false), device, "product").find("stream product: "), std::string::npos)
      << "and more than 128 bits";
  device.vector_bits = 256;
  EXPECT_NE(decisions_on(matmul(12, 70, 300, false), device, "product").find("stream product: "), std::string::npos);
}

TEST(AutoSchedule, SetsRowsOfStreamedSumsApart) {
  const auto pitch = [](int rows, int columns) {
    const Func func = matmul(rows, columns, 20, false);
    expect_same(func, auto_schedule(func, far_from_memory(wide())));
    const std::string text = print(auto_schedule(func, far_from_memory(wide())));
    return text.find(fmt::format("strides [{}, 1]", columns + 16)) != std::string::npos;
  };
  EXPECT_TRUE(pitch(4, 512));
  EXPECT_FALSE(pitch(1, 512)) << "one row";
  EXPECT_FALSE(pitch(4, 528)) << "they lie apart already";
}

TEST(AutoSchedule, ReadsLongPiecesOfRowsThatStreamWhereShortOnesLoseStreams) {
  Device device = lines();
  device.stream_piece_bytes = 512;
  device.caches.push_back({std::int64_t{1} << 20, 16, 64, true});
  const auto streams = [&](int m) { return decisions_on(matmul(m, 200, 260, false), device, "product"); };
  EXPECT_NE(streams(1).find("stream product: 1 rows x 8 vectors of 16 lanes"), std::string::npos) << streams(1);
  EXPECT_NE(streams(2).find("stream product: 2 rows x 8 vectors"), std::string::npos);
  EXPECT_NE(streams(4).find("stream product: 4 rows x 6 vectors"), std::string::npos) << "as registers have room";
  const auto asks = [&](int m) {
    return print(auto_schedule(matmul(m, 200, 260, false), device)).find("prefetch_cache") != std::string::npos;
  };
  EXPECT_FALSE(asks(1)) << "hardware follows pieces of that length";
  EXPECT_FALSE(asks(4)) << "the last cache has room for the operand and more";
  device.caches.back().bytes = std::int64_t{200} * 260 * 4;
  EXPECT_FALSE(asks(1));
  EXPECT_FALSE(asks(2));
  EXPECT_TRUE(asks(3));
}

TEST(AutoSchedule, TilesManyRowsWithSumsInTheFirstCacheWherePiecesAreRead) {
  Device device = lines();
  device.caches.push_back({std::int64_t{1} << 20, 16, 64, true});
  const auto streams = [&](int m) { return decisions_on(matmul(m, 100, 260, false), device, "product"); };
  EXPECT_EQ(streams(24).find("blocks of 48 columns"), std::string::npos);
  device.stream_piece_bytes = 512;
  EXPECT_NE(streams(13).find("stream product: 13 rows x 2 vectors"), std::string::npos) << "few rows are one tile";
  EXPECT_NE(streams(24).find("stream product: 8 rows x 3 vectors of 16 lanes in blocks of 48 columns"),
            std::string::npos)
      << streams(24);
  EXPECT_NE(streams(20).find("stream product: 7 rows x 3 vectors"), std::string::npos) << "as many rows in vain";
  EXPECT_EQ(streams(97).find("stream product"), std::string::npos);
  // Fewer rows where vectors are not lines, unless the operand leaves the last cache too.
  device.vector_bits = 256;
  EXPECT_NE(streams(10).find("stream product: 5 rows x 5 vectors of 8 lanes"), std::string::npos) << streams(10);
  EXPECT_EQ(streams(33).find("stream product"), std::string::npos);
  device.caches.back().bytes = std::int64_t{100} * 260;
  EXPECT_NE(streams(33).find("stream product: 5 rows x 5 vectors"), std::string::npos) << streams(33);
  EXPECT_EQ(streams(65).find("stream product"), std::string::npos);
}

TEST(AutoSchedule, AsksForTheManyNextRowsOfAnOperandThatManyRowsMeet) {
  Device device = lines();
  device.fma_per_cycle = 1;
  device.caches[1].bytes = 8192;
  const auto streams = [&](int m) { return decides(matmul(m, 100, 260, false), device, "stream product: "); };
  const auto asks = [&](int m, int steps) {
    const std::string text = print(auto_schedule(matmul(m, 100, 260, false), device));
    return text.find(fmt::format("in [0, {}) @{{prefetch_cache: 2, prefetch_param_1: {}}}", steps, steps * 100)) !=
           std::string::npos;
  };
  for (const int m : {9, 24, 96}) {
    EXPECT_TRUE(streams(m)) << m;
    EXPECT_TRUE(asks(m, 64)) << m;
  }
  EXPECT_FALSE(streams(97));
  // Of few rows where the last cache has no room for the operand beside others.
  EXPECT_FALSE(asks(1, 8));
  EXPECT_TRUE(asks(2, 8));
  device.caches.push_back({std::int64_t{1} << 20, 16, 64, true});
  EXPECT_TRUE(streams(2));
  EXPECT_FALSE(asks(2, 8));
  EXPECT_TRUE(asks(9, 64));
  expect_same(matmul(21, 100, 260, false), auto_schedule(matmul(21, 100, 260, false), device));
  device.vector_bits = 256;
  EXPECT_TRUE(streams(32));
  EXPECT_FALSE(streams(33)) << "vectors are not lines";
  device.streams_at_once = 4;
  EXPECT_FALSE(streams(32)) << "not timed there";
}

TEST(AutoSchedule, ManyRowsMeetAnOperandThatCachesHoldWhereItsSumsAreLong) {
  Device device = lines();
  device.fma_per_cycle = 1;
  device.caches[1].bytes = std::int64_t{1} << 19;
  const auto streams = [&](int m, int n, int k) { return decides(matmul(m, n, k, false), device, "stream product: "); };
  EXPECT_FALSE(streams(24, 250, 1400));
  EXPECT_TRUE(streams(24, 250, 1600));
  device.vector_bits = 256;
  EXPECT_FALSE(streams(24, 250, 1600));
  EXPECT_TRUE(streams(16, 250, 600));
  EXPECT_FALSE(streams(16, 300, 500));
  EXPECT_FALSE(streams(16, 1024, 600)) << "lines of the pieces lie in few sets";
}

/// out[b, i, j] = sum over k of x[b, i, k] * y[b, k, j].
Func batch_of_products(int batch, int m, int n, int k) {
  return parse_func(fmt::format(
      R"(func products(x: f32[{0}, {1}, {3}], y: f32[{0}, {3}, {2}], out: f32[{0}, {1}, {2}]) stage begin {{
  for b in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {2}) {{ for k in [0, {3}) {{
    block product(space vb in [0, {0}) = b, space vi in [0, {1}) = i, space vj in [0, {2}) = j, reduce vk in [0, {3}) = k)
        reads out[vb, vi, vj], x[vb, vi, vk], y[vb, vk, vj] writes out[vb, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vb, vi, vj] = 0.0f32 }}
      let l: f32 = out[vb, vi, vj]
      let r: f32 = x[vb, vi, vk] * y[vb, vk, vj]
      out[vb, vi, vj] = l + r }} }} }} }} }} }})",
      batch, m, n, k));
}

TEST(AutoSchedule, StreamsNoRowsOfProductsWhoseOperandStaysInTheFirstCache) {
  Device device = wide();
  device.caches = {{4096, 8, 64, false}, {16384, 8, 64, false}, {65536, 16, 64, true}};
  const auto streams = [&](int columns) {
    return decisions_on(batch_of_products(20, 2, columns, 12), device, "product").find("stream") != std::string::npos;
  };
  EXPECT_TRUE(streams(100));
  EXPECT_FALSE(streams(31));
}

/// out[b, i, j] = sum over k of x[b, i, k] * y[k, b, j]: rows of y that belong together lie `batch` rows apart.
TEST(AutoSchedule, AsksForTheNextPanelWhereEachStepLiesInAnotherPage) {
  const auto asks = [](int batch, int columns) {
    const std::string text =
        replaced_all(print(batch_of_products(batch, 2, columns, 12)), "y[vb, vk, vj]", "y[vk, vb, vj]");
    const std::string shape = fmt::format("y: f32[{}, 12, {}]", batch, columns),
                      turned = fmt::format("y: f32[12, {}, {}]", batch, columns);
    const Func func = parse_func(replaced_all(text, shape, turned));
    Device device = wide();
    device.caches = {{4096, 8, 64, false}, {16384, 8, 64, false}, {65536, 16, 64, true}};
    return print(auto_schedule(func, device)).find(fmt::format("prefetch_offset: {}", columns)) != std::string::npos;
  };
  EXPECT_TRUE(asks(24, 48));
  EXPECT_FALSE(asks(12, 48)) << "steps lie nearer";
  EXPECT_FALSE(asks(48, 24)) << "the next panel's lines come with these";
}

/// The greatest and the sum of the elements of each column.
Func down_columns(int rows, int columns) {
  return parse_func(fmt::format(R"(func down(x: f32[{0}, {1}], most: f32[{1}], total: f32[{1}]) stage begin {{
  block root() reads x[..], most[..], total[..] writes most[..], total[..] {{
    for i in [0, {0}) {{ for j in [0, {1}) {{
      block most(reduce vi in [0, {0}) = i, space vj in [0, {1}) = j) reads most[vj], x[vi, vj] writes most[vj] {{
        reducer (a: f32) (b: f32) {{max(a, b)}} identity {{-inf(f32)}}
        init {{ most[vj] = -inf(f32) }}
        let a1: f32 = most[vj]
        let b1: f32 = x[vi, vj]
        most[vj] = max(a1, b1) }} }} }}
    for k in [0, {0}) {{ for l in [0, {1}) {{
      block total(reduce vk in [0, {0}) = k, space vl in [0, {1}) = l) reads most[vl], total[vl], x[vk, vl] writes total[vl] {{
        reducer (c: f32) (d: f32) {{c + d}} identity {{0.0f32}}
        init {{ total[vl] = 0.0f32 }}
        let c1: f32 = total[vl]
        let d1: f32 = x[vk, vl] - most[vl]
        total[vl] = c1 + d1 }} }} }} }} }})",
                                rows, columns));
}

TEST(AutoSchedule, SharesColumnsOfSumsThatTheLastCacheHolds) {
  Device device = wide();
  device.cores = 2;
  device.caches = {{8192, 8, 64, false}, {32768, 8, 64, false}, {std::int64_t{1} << 20, 16, 64, true}};
  const auto has_parts = [&](int rows, int columns) {
    ScheduleLog log;
    auto_schedule(down_columns(rows, columns), device, &log);
    return fmt::format("{}", fmt::join(log.decisions, "\n")).find("into parts") != std::string::npos;
  };
  // Both walk a block of columns for each core, in one loop over blocks.
  const Func near = down_columns(100, 1003), scheduled = auto_schedule(near, device);
  expect_same(near, scheduled);
  const std::string text = print(scheduled);
  EXPECT_EQ(text.find("parallel for"), text.rfind("parallel for")) << text;
  EXPECT_NE(text.find("parallel for"), std::string::npos) << text;
  EXPECT_FALSE(has_parts(200, 1003));
  // Too few columns for two blocks, or more than the last cache holds.
  EXPECT_TRUE(has_parts(3000, 300));
  EXPECT_TRUE(has_parts(1000, 1003));
}

}  // namespace
}  // namespace lathe::testing
