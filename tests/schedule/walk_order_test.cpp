#include "schedule/auto/walk_order.h"

#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

Device with_own_cache(std::int64_t bytes) {
  Device device = wide();
  device.caches = {{bytes / 32, 8, 64, false}, {bytes, 8, 64, false}, {bytes * 32, 16, 64, true}};
  return device;
}

using Order = std::vector<size_t>;

/// for i in 100: for j in 100: a tile of 64 elements, side by side in x[j, i, 64].
const LoopNest jumps{{100, 100, 64}, 2, {{{64, 6400, 1}, 4}}};
/// The same of x[i, j, 64].
const LoopNest follows{{100, 100, 64}, 2, {{{6400, 64, 1}, 4}}};

TEST(WalkOrder, WalksALargeArrayAsItLies) {
  const Device device = with_own_cache(std::int64_t{1} << 16);
  EXPECT_EQ(order_of_walks(device, jumps), (Order{1, 0}));
  EXPECT_EQ(order_of_walks(device, follows), std::nullopt);
}

TEST(WalkOrder, LeavesLoopsOverWhatStaysNearAsTheyAre) {
  EXPECT_EQ(order_of_walks(with_own_cache(std::int64_t{1} << 24), jumps), std::nullopt);
}

TEST(WalkOrder, ReadsAnOperandOnceForAllThatShareIt) {
  // Each of 4000 rows is read for each of 50 places of a small array.
  LoopNest nest{{50, 4000, 64}, 2, {{{0, 64, 1}, 4}, {{64, 0, 1}, 4}}};
  const Device device = with_own_cache(std::int64_t{1} << 17);
  EXPECT_EQ(order_of_walks(device, nest), (Order{1, 0}));
  std::swap(nest.extents[0], nest.extents[1]);
  for (LoopWalk& walk : nest.walks) std::swap(walk.strides[0], walk.strides[1]);
  EXPECT_EQ(order_of_walks(device, nest), std::nullopt);
}

TEST(WalkOrder, KeepsTheOrderWithoutCaches) {
  Device device = wide();
  device.caches.clear();
  EXPECT_EQ(order_of_walks(device, jumps), std::nullopt);
}

TEST(WalkOrder, TakesLoopsOverTilesOutWhereRowsOfResultsLieTogether) {
  // for panel in 40: for tile in 400: 8 rows of 16 columns of a result whose rows lie in one piece.
  const LoopNest nest{{40, 400, 8, 16}, 2, {{{16, 5120, 640, 1}, 4, true}, {{16, 0, 0, 1}, 4}, {{0, 8, 1, 0}, 4}}};
  EXPECT_EQ(order_of_tiles(with_own_cache(std::int64_t{1} << 18), nest, {0, 1}), (Order{1, 0}));
  // Only what may move does.
  EXPECT_EQ(order_of_tiles(with_own_cache(std::int64_t{1} << 18), nest, {0}), std::nullopt);
}

TEST(WalkOrder, LeavesTilesInPanelsThatDoNotStayTogether) {
  // for panel in 40: for tile in 4: all of a panel's 4096 steps are near for every tile; all panels are not.
  const LoopNest nest{{40, 4, 8, 16, 4096},
                      2,
                      {{{16, 5120, 640, 1, 0}, 4, true}, {{16, 0, 0, 1, 640}, 4}, {{0, 32768, 4096, 0, 1}, 4}}};
  EXPECT_EQ(order_of_tiles(with_own_cache(std::int64_t{1} << 20), nest, {0, 1}), std::nullopt);
}

TEST(WalkOrder, GoesOnWithRowsThatPrefetchersFollow) {
  // for batch in 256: for tile in 40: five rows of 63 elements each, of x[40 * 5, 256, 63].
  const LoopNest nest{{256, 40, 5, 63}, 2, {{{63, 80640, 16128, 1}, 4}, {{189, 0, 0, 1}, 4}}};
  Device device = with_own_cache(std::int64_t{1} << 19);
  EXPECT_EQ(order_of_tiles(device, nest, {1}), (Order{1, 0}));
  device.streams_at_once = 4;
  EXPECT_EQ(order_of_tiles(device, nest, {1}), std::nullopt);
}

/// out[a, i, b, j] = sum over k of x[k, a, i, b] * y[k, j], of which lines hold several j of one i.
TEST(WalkOrder, StoresLinesThatSeveralTilesShareOneAfterAnother) {
  const Func func = parse_func(R"(func shallow(x: f32[5, 60, 12], y: f32[12, 5, 17], out: f32[60, 12, 17]) stage begin {
  for b in [0, 12) { for i in [0, 60) { for j in [0, 17) { for k in [0, 5) {
    block product(space vb in [0, 12) = b, space vi in [0, 60) = i, space vj in [0, 17) = j, reduce vk in [0, 5) = k)
        reads out[vi, vb, vj], x[vk, vi, vb], y[vb, vk, vj] writes out[vi, vb, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vb, vj] = 0.0f32 }
      let l: f32 = out[vi, vb, vj]
      let r: f32 = x[vk, vi, vb] * y[vb, vk, vj]
      out[vi, vb, vj] = l + r } } } } }
})");
  Device device = with_own_cache(std::int64_t{1} << 17);
  device.fma_per_cycle = 2;
  device.issue_width = 4;
  EXPECT_NE(decisions_on(func, device, "product").find("order the loops around the tiles of product"),
            std::string::npos)
      << decisions_on(func, device, "product");
  // Where instructions have slots to spare, loads and stores wait for what comes from beyond the core's caches alone.
  device.fma_per_cycle = 1;
  EXPECT_NE(decisions_on(func, device, "product").find("order the loops"), std::string::npos);
  device.caches[1].bytes = std::int64_t{1} << 20;
  EXPECT_EQ(decisions_on(func, device, "product").find("order the loops"), std::string::npos);
}

/// out = a * x^T of six steps: x is turned around, and lies by panels.
TEST(WalkOrder, StoresWholeRowsOfTilesOverPanels) {
  const Func func = parse_func(R"(func panels(a: f32[24, 6], x: f32[800, 6], out: f32[24, 800]) stage begin {
  for i in [0, 24) { for j in [0, 800) { for k in [0, 6) {
    block product(space vi in [0, 24) = i, space vj in [0, 800) = j, reduce vk in [0, 6) = k)
        reads out[vi, vj], a[vi, vk], x[vj, vk] writes out[vi, vj] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vj] = 0.0f32 }
      let l: f32 = out[vi, vj]
      let r: f32 = a[vi, vk] * x[vj, vk]
      out[vi, vj] = l + r } } } }
})");
  Device device = with_own_cache(std::int64_t{1} << 17);
  device.fma_per_cycle = 2;
  device.issue_width = 4;
  const std::string decisions = decisions_on(func, device, "product");
  EXPECT_NE(decisions.find("out by panels"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("order the loops around the tiles of product"), std::string::npos) << decisions;
}

/// out[a, e, f, c] = sum over g of x[a, g, c] * y[e, g, a, f].
TEST(WalkOrder, ReordersLoopsAndPicksRowsThatLieNear) {
  const Func func = parse_func(R"(func far(x: f32[6, 12, 5], y: f32[20, 12, 6, 7], out: f32[6, 20, 7, 5]) stage begin {
  for a in [0, 6) { for e in [0, 20) { for f in [0, 7) { for c in [0, 5) { for g in [0, 12) {
    block product(space va in [0, 6) = a, space ve in [0, 20) = e, space vf in [0, 7) = f, space vc in [0, 5) = c,
                  reduce vg in [0, 12) = g)
        reads out[va, ve, vf, vc], x[va, vg, vc], y[ve, vg, va, vf] writes out[va, ve, vf, vc] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[va, ve, vf, vc] = 0.0f32 }
      let l: f32 = out[va, ve, vf, vc]
      let r: f32 = x[va, vg, vc] * y[ve, vg, va, vf]
      out[va, ve, vf, vc] = l + r } } } } } }
})");
  const Device device = with_own_cache(16384);
  EXPECT_NE(decisions_on(func, device, "product").find("tile product: 7 rows x 1 vectors"), std::string::npos)
      << decisions_on(func, device, "product");
  expect_golden(print(auto_schedule(func, device)), "auto_walk_order.tir");
}

}  // namespace
}  // namespace lathe::testing
