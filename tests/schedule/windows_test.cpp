// Rows of a tile whose windows overlap, which share what they load.
#include "schedule/auto/windows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text/parse.h"
#include "tests/schedule/auto_support.h"

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

Device with_caches(std::int64_t own) {
  Device device = fused(wide(), 1);
  device.caches = {{std::int64_t{32} << 10, 8, 64, false}, {own, 8, 64, false}, {std::int64_t{64} << 20, 16, 64, true}};
  return device;
}

TEST(Windows, CountsEachElementThatRowsShareOnce) {
  Windows windows;
  windows.count = 3;
  windows.row_stride = windows.step_stride = 56;
  EXPECT_EQ(windows.loads(1), 3);
  EXPECT_EQ(windows.loads(4), 6);
  windows.row_stride = 112;
  EXPECT_EQ(windows.loads(4), 9) << "every second row";
  windows.row_stride = 56;
  windows.step_stride = 112;
  EXPECT_EQ(windows.loads(2), 6) << "steps of two rows";
  EXPECT_EQ(windows.loads(4), 8);
  windows.step_stride = -56;
  EXPECT_EQ(windows.loads(4), 6) << "backwards";
  windows.own = 1;
  EXPECT_EQ(windows.loads(4), 18) << "and one of each row";
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
  // Dilated, by two, backwards, prime, and with an operand of each row's own.
  for (const Func& func : {stencil(2, 21, 33, 3, 1, 2), stencil(3, 23, 40, 3, 2), stencil(1, 17, 31, 5, 1, 3),
                           stencil(2, 19, 64, 3, 1, 1, true), stencil(1, 3, 16, 3), stencil(2, 13, 5, 7)})
    expect_scheduled_well(func);
}

TEST(Windows, TakeOneRowWhereNextOnesShareNothing) {
  EXPECT_EQ(tile_of(stencil(2, 60, 56, 3, 3), with_caches(std::int64_t{1} << 20)).rows, 1);
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

TEST(Windows, WalkWholeRowsOfWhatExceedsTheCaches) {
  const Func func = stencil(16, 56, 56);
  const Tile near = tile_of(func, with_caches(std::int64_t{1} << 20)), far = tile_of(func, with_caches(4096));
  EXPECT_GE(near.rows, 2);
  EXPECT_LE(far.rows, 2);
  EXPECT_GE(far.vectors * far.lanes, 56);
}

}  // namespace
}  // namespace lathe::testing
