// Rows of a tile whose windows overlap, which share what they load.
#include "schedule/auto/windows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[c, i, j] = sum of w[c, r, s] * x[c, i * step + r * apart - 1, j + s - 1], zero outside of x, over channels of
/// `rows` by `columns`; with `own`, of v[c, i, r, j] more.
Func stencil(int channels, int rows, int columns, int taps = 3, int step = 1, int apart = 1, bool own = false) {
  const int results = (rows + 1 - (taps - 1) * apart) / step + 1;
  const std::string row = fmt::format("vi * {} + vr * {} - 1", step, apart);
  const std::string inside =
      fmt::format("0 <= {0} && {0} < {1} && 0 < vj + vs && vj + vs < {2}", row, rows, columns + 1);
  return parse_func(fmt::format(
      R"(func stencil(x: f32[{0}, {1}, {2}], w: f32[{0}, {3}, 3], v: f32[{0}, {4}, {3}, {2}], out: f32[{0}, {4}, {2}])
    stage begin {{
  for c in [0, {0}) {{ for i in [0, {4}) {{ for j in [0, {2}) {{ for r in [0, {3}) {{ for s in [0, 3) {{
    block sum(space vc in [0, {0}) = c, space vi in [0, {4}) = i, space vj in [0, {2}) = j, reduce vr in [0, {3}) = r,
              reduce vs in [0, 3) = s)
        reads out[vc, vi, vj], w[vc, vr, vs], x[vc, {5}, vj + vs - 1]{7} writes out[vc, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vc, vi, vj] = 0.0f32 }}
      let old: f32 = out[vc, vi, vj]
      let term: f32 = select({6}, x[vc, {5}, vj + vs - 1 if {6}], 0.0f32) * {8}
      out[vc, vi, vj] = old + term }} }} }} }} }} }} }})",
      channels, rows, columns, taps, results, row, inside, own ? ", v[vc, vi, vr, vj]" : "",
      own ? "(w[vc, vr, vs] + v[vc, vi, vr, vj])" : "w[vc, vr, vs]"));
}

/// out[i, j, c] = sum of w[c, r, s] * x[i * step + r - 1, j * step + s - 1, c], zero outside of x: pixels of channels.
Func pixels(int rows, int columns, int channels, int taps = 3, int step = 1) {
  const auto results = [&](int extent) { return (extent + 2 - taps) / step + 1; };
  const std::string row = fmt::format("vi * {} + vr - 1", step), column = fmt::format("vj * {} + vs - 1", step);
  const std::string inside = fmt::format("0 <= {0} && {0} < {1} && 0 <= {2} && {2} < {3}", row, rows, column, columns);
  return parse_func(fmt::format(
      R"(func pixels(x: f32[{0}, {1}, {2}], w: f32[{2}, {3}, {3}], out: f32[{4}, {5}, {2}]) stage begin {{
  for i in [0, {4}) {{ for j in [0, {5}) {{ for c in [0, {2}) {{ for r in [0, {3}) {{ for s in [0, {3}) {{
    block sum(space vi in [0, {4}) = i, space vj in [0, {5}) = j, space vc in [0, {2}) = c, reduce vr in [0, {3}) = r,
              reduce vs in [0, {3}) = s)
        reads out[vi, vj, vc], w[vc, vr, vs], x[{6}, {7}, vc] writes out[vi, vj, vc] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj, vc] = 0.0f32 }}
      let old: f32 = out[vi, vj, vc]
      let term: f32 = select({8}, x[{6}, {7}, vc if {8}], 0.0f32) * w[vc, vr, vs]
      out[vi, vj, vc] = old + term }} }} }} }} }} }} }})",
      rows, columns, channels, taps, results(rows), results(columns), row, column, inside));
}

struct Tile {
  int rows = 0, vectors = 0, lanes = 0;
};

/// That of the block sum, scheduled and checked.
Tile tile_of(const Func& func, const Device& device) {
  const std::string text = decisions_on(func, device, "sum");
  Tile tile;
  const size_t at = text.find("tile sum: ");
  if (at != std::string::npos)
    std::sscanf(text.c_str() + at, "tile sum: %d rows x %d vectors of %d", &tile.rows, &tile.vectors, &tile.lanes);
  return tile;
}

TEST(Windows, CountsEachElementThatRowsShareOnce) {
  const auto loads = [](std::int64_t row_stride, std::int64_t step_stride, std::int64_t own) {
    Windows windows;
    windows.count = 3;
    count_loads(windows, row_stride, step_stride, own);
    return windows.loads;
  };
  const auto neighbours = loads(56, 56, 0);
  EXPECT_EQ(neighbours[1], 3);
  EXPECT_EQ(neighbours[4], 6);
  EXPECT_EQ(neighbours[8], 10);
  EXPECT_EQ(loads(112, 56, 0)[4], 9) << "every second row";
  EXPECT_EQ(loads(56, 112, 0)[2], 6) << "steps of two rows";
  EXPECT_EQ(loads(56, 112, 0)[4], 8);
  EXPECT_EQ(loads(56, -56, 0)[4], 6) << "backwards";
  EXPECT_EQ(loads(56, 56, 1)[4], 18) << "and one of each row";
}

TEST(Windows, TakeSeveralRowsInOneBody) {
  for (const int columns : {56, 28, 30, 100}) {
    SCOPED_TRACE(columns);
    const Func func = stencil(2, 20, columns);
    const Tile tile = tile_of(func, with_caches(std::int64_t{1} << 20));
    EXPECT_GE(tile.rows, 2);
    EXPECT_LE(tile.rows * tile.vectors * 9, 200) << "too long to compile";
  }
  const Tile large = tile_of(stencil(2, 40, 56, 5), with_caches(std::int64_t{1} << 20));
  EXPECT_GE(large.rows, 2) << "fifteen steps";
}

TEST(Windows, ComputeWhatOneRowDoes) {
  // Dilated, by two, prime, with an operand of each row's own, backwards, of extremes, and of other types.
  for (const Func& func : {stencil(2, 21, 33, 3, 1, 2), stencil(3, 23, 40, 3, 2), stencil(1, 17, 31, 5, 1, 3),
                           stencil(2, 19, 64, 3, 1, 1, true), stencil(1, 3, 16, 3), stencil(2, 13, 5, 7)})
    expect_scheduled_well(func);
  const std::string text = print(stencil(2, 20, 40));
  Device maskless = with_caches(std::int64_t{1} << 20);
  maskless.mask_registers = 0;
  for (const std::string& other :
       {replaced_all(replaced_all(text, "vi + vr - 1", "vi - vr + 1"), "vi + vr", "vi - vr + 2"),
        replaced_all(replaced_all(replaced_all(text, "lhs + rhs", "max(lhs, rhs)"), "old + term", "max(old, term)"),
                     "0.0f32}", "-inf(f32)}"),
        replaced_all(text, "f32", "f64"), replaced_all(replaced_all(text, "0.0f32", "0i32"), "f32", "i32")}) {
    SCOPED_TRACE(other);
    const Func func = parse_func(other);
    expect_scheduled_well(func);
    for (const Device& device : {with_caches(std::int64_t{1} << 20), maskless})
      expect_same(func, auto_schedule(func, device));
  }
}

TEST(Windows, TakeOneRowWhereNextOnesShareNothing) {
  EXPECT_EQ(tile_of(stencil(2, 60, 56, 3, 3), with_caches(std::int64_t{1} << 20)).rows, 1);
}

TEST(Windows, LeaveTermsThatTakeLongToARow) {
  const std::string text =
      replaced_all(print(stencil(2, 20, 56)), "* w[vc, vr, vs]\n", "* exp(w[vc, vr, vs] + x[vc, vi, vj])\n");
  const Func func = parse_func(replaced_all(text, "reads out[", "reads x[vc, vi, vj], out["));
  EXPECT_EQ(tile_of(func, with_caches(std::int64_t{1} << 20)).rows, 1);
}

TEST(Windows, LeaveThoseThatOthersAreSummedFromRowByRow) {
  const Func func = parse_func(R"(func box(x: f32[2, 56, 56], out: f32[2, 56, 56]) stage begin {
  for c in [0, 2) { for i in [0, 56) { for j in [0, 56) { for r in [0, 3) { for s in [0, 3) {
    block sum(space vc in [0, 2) = c, space vi in [0, 56) = i, space vj in [0, 56) = j, reduce vr in [0, 3) = r,
              reduce vs in [0, 3) = s)
        reads out[vc, vi, vj], x[vc, vi + vr - 1, vj + vs - 1] writes out[vc, vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vc, vi, vj] = 0.0f32 }
      let old: f32 = out[vc, vi, vj]
      let term: f32 = select(0 < vi + vr && vi + vr < 57 && 0 < vj + vs && vj + vs < 57,
                             x[vc, vi + vr - 1, vj + vs - 1 if 0 < vi + vr && vi + vr < 57 && 0 < vj + vs && vj + vs < 57], 0.0f32)
      out[vc, vi, vj] = old + term } } } } } } })");
  const Device device = with_caches(std::int64_t{1} << 20);
  const std::string shared = decisions_on(func, device, "sum_window");
  EXPECT_NE(shared.find("tile sum_window: 1 rows"), std::string::npos) << shared;
}

TEST(Windows, AreThoseOfTheRowsThatATileHas) {
  // Weights of 8 images lie side by side, those of the next row 200 elements on.
  const Func func = parse_func(
      R"(func local(x: f32[8, 4, 30, 40], w: f32[4, 26, 5, 5, 8], out: f32[8, 4, 26, 36]) stage begin {
  for m in [0, 8) { for c in [0, 4) { for i in [0, 26) { for j in [0, 36) { for r in [0, 5) { for s in [0, 5) {
    block sum(space vm in [0, 8) = m, space vc in [0, 4) = c, space vi in [0, 26) = i, space vj in [0, 36) = j,
              reduce vr in [0, 5) = r, reduce vs in [0, 5) = s)
        reads out[vm, vc, vi, vj], w[vc, vi, vr, vs, vm], x[vm, vc, vi + vr, vj + vs] writes out[vm, vc, vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vm, vc, vi, vj] = 0.0f32 }
      let old: f32 = out[vm, vc, vi, vj]
      let term: f32 = x[vm, vc, vi + vr, vj + vs] * w[vc, vi, vr, vs, vm]
      out[vm, vc, vi, vj] = old + term } } } } } } } })");
  const std::string text = print(auto_schedule(func, with_caches(std::int64_t{1} << 20)));
  EXPECT_NE(text.find("unrolled for m in"), std::string::npos) << text;
  EXPECT_EQ(text.find("unrolled for r in"), std::string::npos) << text;
}

TEST(Windows, WalkWholeRowsOfWhatExceedsTheCaches) {
  const Func func = stencil(16, 56, 56);
  const Tile near = tile_of(func, with_caches(std::int64_t{1} << 20)), far = tile_of(func, with_caches(4096));
  EXPECT_GE(near.rows, 2);
  EXPECT_LE(far.rows, 2);
  EXPECT_GE(far.vectors * far.lanes, 56);
}

TEST(Windows, OfPixelsTakeSeveralRowsInOneBodyWithoutACopyOfThePadding) {
  for (const int step : {1, 2}) {
    SCOPED_TRACE(step);
    const Func func = pixels(20, 24, 48, 3, step);
    const std::string text = decisions_on(func, with_caches(std::int64_t{1} << 20), "sum");
    EXPECT_GE(tile_of(func, with_caches(std::int64_t{1} << 20)).rows, 2) << text;
    EXPECT_EQ(text.find("pad x"), std::string::npos) << text;
  }
  EXPECT_GE(tile_of(pixels(20, 24, 48), with_caches(4096)).rows, 2) << "pixels lie one behind the other";
}

TEST(Windows, OfPixelsComputeWhatOneRowDoes) {
  Device maskless = with_caches(std::int64_t{1} << 20);
  maskless.mask_registers = 0;
  for (const Func& func : {pixels(9, 11, 16), pixels(7, 7, 40, 5), pixels(8, 10, 19, 3, 2), pixels(5, 6, 33, 3, 3),
                           pixels(3, 2, 16), pixels(13, 12, 32, 7, 2)}) {
    SCOPED_TRACE(print(func));
    expect_scheduled_well(func);
    for (const Device& device : {with_caches(std::int64_t{1} << 20), with_caches(4096), maskless})
      expect_same(func, auto_schedule(func, device));
  }
}

/// Steps of windows whose weights have rows of their own: two operands that vectors walk, each for rows of the other.
TEST(Windows, LeaveRowsInPairs) {
  const Func func = parse_func(R"(func paired(x: f32[66, 64], w: f32[3, 4, 64], out: f32[64, 4, 64]) stage begin {
  for i in [0, 64) { for m in [0, 4) { for c in [0, 64) { for k in [0, 3) {
    block sum(space vi in [0, 64) = i, space vm in [0, 4) = m, space vc in [0, 64) = c, reduce vk in [0, 3) = k)
        reads out[vi, vm, vc], w[vk, vm, vc], x[vi + vk, vc] writes out[vi, vm, vc] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vm, vc] = 0.0f32 }
      let old: f32 = out[vi, vm, vc]
      let term: f32 = x[vi + vk, vc] * w[vk, vm, vc]
      out[vi, vm, vc] = old + term } } } } }
})");
  for (const Device& device : {with_caches(std::int64_t{1} << 20), with_caches(4096), narrow()})
    expect_same(func, auto_schedule(func, device));
}

TEST(Windows, WaitForEachOtherWhereRowsAreFew) {
  const auto cycles = [](std::int64_t rows, std::int64_t vectors) {
    Windows windows;
    windows.count = 7;
    windows.depth = 49;
    windows.lane_weights = true;
    count_loads(windows, 1, 1, 0);
    const double all = window_cycles({2, 2, 6, 8, 15, 64}, windows, {rows, vectors, 8, 49}, 32);
    return all / static_cast<double>(rows * vectors);
  };
  EXPECT_LT(cycles(4, 1), 0.7 * cycles(2, 2)) << "two sums at a time, four cycles each";
}

TEST(Windows, TakeTurnsOverStepsWhereOneBodyWouldBeTooLong) {
  Device device = with_caches(std::int64_t{1} << 20);
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.mask_registers = 0;
  device.fma_per_cycle = 2;
  const Func func = stencil(4, 20, 7, 15);
  const Tile tile = tile_of(func, device);
  EXPECT_EQ(tile.rows, 8) << "all of them, of 45 steps each";
  EXPECT_NE(print(auto_schedule(func, device)).find("for r in [0, 15) {"), std::string::npos);

  Windows windows;
  windows.count = 7;
  windows.depth = 49;
  count_loads(windows, 1, 1, 0);
  const auto turns = [&](std::int64_t rows, std::int64_t vectors, std::int64_t all_rows) {
    return window_turns(device, windows, {rows, vectors, 8, 49}, 15, all_rows, 8 * vectors);
  };
  EXPECT_EQ(turns(4, 1, 8), 1);
  EXPECT_EQ(turns(7, 1, 7), 7);
  EXPECT_EQ(turns(7, 1, 8), 0) << "a row is left";
  EXPECT_EQ(turns(5, 3, 5), 0) << "no register is left for a weight";
  windows.lane_weights = true;
  EXPECT_EQ(turns(7, 1, 7), 0) << "each vector would load weights of its own";
}

}  // namespace
}  // namespace lathe::testing
