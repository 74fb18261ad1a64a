/// Which passes ask for what they stream some way ahead.
#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

constexpr int ahead = 256;

/// A core has so many bytes of cache for itself, and hardware leaves it to software to ask ahead.
Device asking(std::int64_t own) {
  Device device = wide();
  device.caches = {{own, 8, 64, false}, {std::int64_t{1} << 30, 16, 64, true}};
  device.stream_ahead_bytes = ahead;
  return device;
}

/// Prefetches by parameter, all loops together: "0: 64 1: 64".
std::string asked(const Func& func, const Device& device) {
  std::string found;
  for_each_stmt(auto_schedule(func, device)->body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    if (!loop) return;
    for (const auto& [name, value] : loop->annotations) {
      const std::string param = "prefetch_param_";
      if (name.starts_with(param))
        found += fmt::format("{}: {} ", name.substr(param.size()), std::get<std::int64_t>(value));
    }
  });
  return found;
}

/// out = exp(x) + y over rows of 400, of an x whose rows lie `step` elements apart.
Func exponentials(int step) {
  return parse_func(
      fmt::format(R"(func f(x: f32[16, {0}] strides [{1}, 1], y: u8[16, {0}], out: f32[16, {0}]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, 16) {{ for j in [0, {0}) {{
      block add(space vi in [0, 16) = i, space vj in [0, {0}) = j) reads x[vi, vj], y[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = exp(x[vi, vj]) + cast<f32>(y[vi, vj]) }} }} }} }} }})",
                  400, step));
}

constexpr std::int64_t tensors = std::int64_t{16} * 400 * 9;

TEST(AskAhead, WhereTensorsTogetherLeaveTheCachesOfACore) {
  const Func func = exponentials(400);
  EXPECT_EQ(asked(func, asking(tensors - 1)), "0: 64 1: 256 2: 64 ");
  EXPECT_EQ(asked(func, asking(tensors)), "");
  Device follows = asking(tensors - 1);
  follows.stream_ahead_bytes = 0;
  EXPECT_EQ(asked(func, follows), "") << "hardware does";
}

TEST(AskAhead, NotBehindShortRows) {
  EXPECT_EQ(asked(exponentials(512), asking(tensors / 4)), "1: 256 2: 64 ") << "of x, 1,600 bytes a row";
}

/// Each row of 400 less its sum, of an x whose rows lie `step` elements apart: the last tile of a row is part of one.
Func rows_less_sums(int step) {
  return parse_func(fmt::format(
      R"(func f(x: f32[64, 400] strides [{0}, 1], out: f32[64, 400]) stage begin {{
  block root() reads x[..] writes out[..] {{
    alloc sum: f32[64]
    for i in [0, 64) {{ for j in [0, 400) {{
      block sum(space vi in [0, 64) = i, reduce vj in [0, 400) = j) reads sum[vi], x[vi, vj] writes sum[vi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ sum[vi] = 0.0f32 }}
        let old: f32 = sum[vi]
        let new: f32 = x[vi, vj]
        sum[vi] = old + new }} }} }}
    for i in [0, 64) {{ for j in [0, 400) {{
      block less(space vi in [0, 64) = i, space vj in [0, 400) = j) reads x[vi, vj], sum[vi] writes out[vi, vj] {{
        out[vi, vj] = x[vi, vj] - sum[vi] }} }} }} }} }})",
      step));
}

TEST(AskAhead, AcrossRowsWhoseLastTileIsPartOfOne) {
  EXPECT_EQ(asked(rows_less_sums(400), asking(1024)), "0: 64 1: 64 ");
  EXPECT_EQ(asked(rows_less_sums(900), asking(1024)), "1: 64 ") << "behind a row of x lies a gap";
}

TEST(AskAhead, NotOfLinesThatStoresPastTheCachesFill) {
  const Func func = parse_func(R"(func f(x: f32[512, 512], out: f32[512, 512] align 64) stage begin {
  block root() reads x[..] writes out[..] {
    for i in [0, 512) { for j in [0, 512) {
      block turn(space vi in [0, 512) = i, space vj in [0, 512) = j) reads x[vj, vi] writes out[vi, vj] {
        out[vi, vj] = x[vj, vi] } } } } })");
  Device device = asking(1024);
  EXPECT_NE(asked(func, device).find("1: "), std::string::npos);
  device.caches[1].bytes = 512 * 512 * 4;
  EXPECT_EQ(asked(func, device).find("1: "), std::string::npos);
}

TEST(AskAhead, ReductionsThatWriteNoStreamGainNothing) {
  const Func func = parse_func(R"(func f(x: f32[16, 4096], out: f32[16]) stage begin {
  block root() reads x[..] writes out[..] {
    for i in [0, 16) { for j in [0, 4096) {
      block total(space vi in [0, 16) = i, reduce vj in [0, 4096) = j) reads out[vi], x[vi, vj] writes out[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vi] = 0.0f32 }
        let old: f32 = out[vi]
        let new: f32 = x[vi, vj]
        out[vi] = old + new } } } } })");
  EXPECT_EQ(asked(func, asking(1024)), "");
}

/// out[b, i, j] = sum over k of a[k, b, i] * x[k, b, j], of `rows` rows and `steps` steps.
Func product_of_columns(int rows, int steps = 16) {
  return parse_func(
      fmt::format(R"(func f(a: f32[{1}, 3, {0}], x: f32[{1}, 3, 400], out: f32[3, {0}, 400]) stage begin {{
  for b in [0, 3) {{ for i in [0, {0}) {{ for j in [0, 400) {{ for k in [0, {1}) {{
    block product(space vb in [0, 3) = b, space vi in [0, {0}) = i, space vj in [0, 400) = j, reduce vk in [0, {1}) = k)
        reads out[vb, vi, vj], a[vk, vb, vi], x[vk, vb, vj] writes out[vb, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vb, vi, vj] = 0.0f32 }}
      let l: f32 = out[vb, vi, vj]
      let r: f32 = a[vk, vb, vi] * x[vk, vb, vj]
      out[vb, vi, vj] = l + r }} }} }} }} }} }})",
                  rows, steps));
}

TEST(AskNextTile, OfAnArrayOfWhichEachStepReadsElsewhere) {
  constexpr std::int64_t far = 48 << 10;
  const auto asks = [](int rows, std::int64_t own) { return asked(product_of_columns(rows), asking(own)); };
  EXPECT_EQ(asks(6, far), "1: 128 ") << "the next tile comes too soon\n"
                                     << decisions_on(product_of_columns(6), asking(far), "product");
  Device few_streams = asking(far);
  few_streams.streams_at_once = 4;
  EXPECT_EQ(asked(product_of_columns(6), few_streams), "1: 64 ") << "the next tile, of another b, comes too soon";
  EXPECT_EQ(asks(6, far * 2), "") << "it stays near";
  EXPECT_EQ(asks(2, far), "1: 320 ") << "the next tile comes too soon: one of four on";
  Device filled = asking(far);
  filled.fma_per_cycle = 2;
  EXPECT_EQ(asked(product_of_columns(2), filled), "") << "asking would take more slots than adding up";
  EXPECT_EQ(asks(60, far), "") << "many tiles read the same columns";
}

TEST(AskNextTile, OfAllPartsOfALongSum) {
  const Device device = asking(std::int64_t{4} << 20);
  EXPECT_TRUE(decides(product_of_columns(6, 1100), device, "take product in parts of 275 steps"));
  EXPECT_EQ(asked(product_of_columns(6, 1100), device), "1: 80 ") << "the same part of the next tile";
  Device few_streams = asking(std::int64_t{2} << 20);
  few_streams.streams_at_once = 4;
  EXPECT_EQ(asked(product_of_columns(40, 2000), few_streams), "1: 600000 ")
      << "the next part, where the next tile is far";
}

/// A product of rows that begin `pitch` elements apart by few columns.
Func product_of_rows(int rows, int steps, int pitch, int columns = 8) {
  return product_lying(rows, columns, steps, fmt::format("strides [{}, 1]", pitch));
}

TEST(AskNextTile, OfRowsThatAreRunsAlongTheSteps) {
  Device device = asking(std::int64_t{1} << 20);
  device.caches.back().bytes = 4 << 20;
  const auto walk = [&](const Func& func, const Device& on) {
    const std::string text = print(auto_schedule(func, on));
    const size_t at = text.find("prefetch_walk_0: ");
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 17);
  };
  EXPECT_EQ(asked(product_of_rows(10000, 100, 100, 4), device), "0: 2000 ") << "tiles of 5 dot products, 4 further on";
  const int rows = walk(product_of_rows(10000, 100, 100), device);
  EXPECT_GT(rows, 1) << "an element of each row of a tile for each step";
  EXPECT_EQ(walk(product_of_rows(10000, 100, 120), device), (rows * 120 + 99) / 100) << "gaps are walked as well";
  EXPECT_EQ(walk(product_of_rows(10000, 100, 300), device), 0) << "most of it would be gaps";
  EXPECT_EQ(walk(product_of_rows(1000, 100, 100), device), 0) << "x stays near";
  EXPECT_EQ(walk(product_of_rows(100, 50000, 50000), device), 0) << "the next tile would push this one out";
  EXPECT_EQ(walk(product_of_rows(10000, 60, 60), device), 0) << "of 240 bytes";
  Device filled = device;
  filled.fma_per_cycle = 2;
  EXPECT_EQ(walk(product_of_rows(10000, 100, 100), filled), 0) << "hardware keeps up there";
}

TEST(AskNextTile, OfFewColumnsFromMemoryAlone) {
  const auto asks = [](int rows, int columns, std::int64_t last) {
    Device device = asking(std::int64_t{1} << 20);
    device.caches.back().bytes = last;
    return asked(product_of_rows(rows, 128, 128, columns), device);
  };
  EXPECT_EQ(asks(20000, 1, 16 << 20), "0: 8192 ") << "tiles of 8 rows, 8 further on, in a loop below the reader's";
  EXPECT_EQ(asks(20000, 1, 64 << 20), "") << "a line for each multiply-add would take the slots of both";
  EXPECT_NE(asks(20000, 8, 64 << 20), "");
}

}  // namespace
}  // namespace lathe::testing
