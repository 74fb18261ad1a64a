#include "schedule/auto/register_tile.h"

#include <gtest/gtest.h>

#include "tests/schedule/auto_support.h"

namespace lathe {
namespace {

using testing::wide;

Device broadcasting() {
  Device device = wide();
  device.fused_multiply_add = true;
  device.features = {"avx512f"};
  return device;
}

TiledExtents packed(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  TiledExtents extents{rows, columns, depth};
  extents.whole_columns = extents.packed_columns = true;
  return extents;
}

TEST(RegisterTile, HasManyRowsOfOneVectorWhereMultiplicationsReadMemory) {
  for (const std::int64_t rows : {28, 56, 112}) {
    const RegisterTile tile = choose_tile(broadcasting(), 16, 32, packed(rows, 64, 576));
    EXPECT_EQ(tile.rows, 28);
    EXPECT_EQ(tile.vectors, 1);
  }
  const RegisterTile odd = choose_tile(broadcasting(), 16, 32, packed(17, 64, 576));
  EXPECT_EQ(odd.rows, 17) << "no second body for a remainder";
  EXPECT_EQ(odd.vectors, 1);
}

TEST(RegisterTile, SharesWhatItLoadsForARowAmongVectors) {
  EXPECT_GT(choose_tile(wide(), 16, 32, packed(56, 64, 576)).vectors, 1) << "elements of rows are loaded apart";
  EXPECT_GT(choose_tile(broadcasting(), 16, 32, {56, 64, 576}).vectors, 1) << "columns are not packed";
  TiledExtents loaded = packed(56, 64, 576);
  loaded.loads_rows = true;
  EXPECT_GT(choose_tile(broadcasting(), 16, 32, loaded).vectors, 1) << "no instruction takes them from memory";
  Device pair = broadcasting();
  pair.fma_per_cycle = 2;
  EXPECT_GT(choose_tile(pair, 16, 32, packed(56, 64, 576)).vectors, 1) << "a load for each multiplication is too many";
}

TEST(RegisterTile, LoadsLessWhereAPanelFillsTheFirstCache) {
  Device pair = broadcasting();
  pair.fma_per_cycle = 2;
  pair.caches = {{32 << 10, 8, 64, false}};
  TiledExtents panel = packed(28, 128, 1152);
  const RegisterTile far = choose_tile(pair, 16, 32, panel);
  EXPECT_EQ(far.rows, 14);
  EXPECT_EQ(far.vectors, 2) << "sixteen loads for 28 multiplications, not 29";
  panel.depth = 144;
  panel.columns = 16;
  EXPECT_EQ(choose_tile(pair, 16, 32, panel).rows, 28) << "the panel stays in the first cache";
}

TEST(RegisterTile, HasAsManyRowsAsSetsOfTheFirstCacheHold) {
  Device lines = broadcasting();
  lines.fma_per_cycle = 2;
  lines.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  TiledExtents extents{14, 256, 2304};
  EXPECT_LE(choose_tile(lines, 16, 32, extents).rows, 8);
  extents.row_bytes = 16384;
  EXPECT_LE(choose_tile(lines, 16, 32, extents).rows, 8) << "all rows in one set";
  extents.row_bytes = 1024;
  EXPECT_EQ(choose_tile(lines, 16, 32, extents).rows, 14) << "in four sets";
}

TEST(RegisterTile, LoadsLittleWhereEachMultiplicationWantsALine) {
  Device lines = wide();
  lines.fma_per_cycle = 2;
  lines.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  for (const std::int64_t side : {512, 1024, 2048}) {
    const RegisterTile tile = choose_tile(lines, 16, 32, {side, side, side});
    EXPECT_EQ(tile.rows, 6);
    EXPECT_EQ(tile.vectors, 4);
  }
}

/// Two multiply-adds of half a line a cycle, and so many instructions.
Device half_lines(int issue_width) {
  Device device = wide();
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.fused_multiply_add = true;
  device.fma_per_cycle = 2;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  device.issue_width = issue_width;
  return device;
}

TEST(RegisterTile, CountsInstructionsWhereFewStartBesideMultiplications) {
  for (const int issue_width : {4, 6}) {
    const RegisterTile tile = choose_tile(half_lines(issue_width), 8, 32, {1024, 1024, 1024});
    EXPECT_EQ(tile.rows, 6);
    EXPECT_EQ(tile.vectors, 2);
  }
  EXPECT_EQ(choose_tile(half_lines(4), 8, 32, {52, 53, 84}).vectors, 2)
      << "a tile of one vector loads as often as it multiplies";
}

TEST(RegisterTile, TakesStepsTogetherWhereFewInstructionsStartBesideMultiplications) {
  const RegisterTile tile{6, 2, 8, 1, 1e6};
  EXPECT_EQ(steps_together(half_lines(4), tile, 1e6, 512), 4);
  EXPECT_EQ(steps_together(half_lines(6), tile, 1e6, 512), 2) << "two thirds of the slots are filled";
  EXPECT_EQ(steps_together(half_lines(6), tile, 1e6, 7), 7);
  EXPECT_EQ(steps_together(half_lines(8), tile, 1e6, 512), 1) << "slots are no concern";
  EXPECT_EQ(steps_together(wide(), tile, 1e6, 512), 1);
  EXPECT_EQ(steps_together(half_lines(4), tile, 1e6, 386), 2);
  EXPECT_EQ(steps_together(half_lines(4), tile, 1e6, 131), 1);
  EXPECT_EQ(steps_together(half_lines(4), tile, 1e6, 7), 7) << "a row of a window";
  EXPECT_EQ(steps_together(half_lines(4), tile, 20e3, 512), 1) << "done before it were compiled";
  EXPECT_EQ(steps_together(half_lines(4), {3, 2, 8, 1, 1e6}, 1e6, 512), 1) << "latency is waited for";
  EXPECT_EQ(steps_together(half_lines(6), {11, 1, 8, 1, 1e6}, 1e6, 512), 1) << "sums would change registers";
}

TEST(RegisterTile, LeavesSumsOfOneVectorRegistersToMoveIn) {
  EXPECT_EQ(choose_tile(half_lines(6), 8, 32, {1001, 8, 500}).rows, 11);
  EXPECT_GE(choose_tile(half_lines(8), 8, 32, {1001, 8, 500}).rows, 12) << "steps are not counted";
}

TEST(RegisterTile, FitsTheRegisters) {
  for (const Device& device : {wide(), broadcasting(), testing::narrow()}) {
    for (std::int64_t rows = 1; rows < 60; rows += 7) {
      for (const std::int64_t columns : {16, 64, 160}) {
        const RegisterTile tile = choose_tile(device, device.vector_bits / 32, 32, packed(rows, columns, 100));
        EXPECT_LT(tile.rows * tile.vectors + tile.vectors, device.vector_registers);
      }
    }
  }
}

TEST(RegisterTile, RowsAreCutForCoresThatPanelsDoNotDivideAmong) {
  Device two = broadcasting();
  two.cores = 2;
  const RegisterTile tile{9, 3, 16, 1, 500e3};
  const auto rows = [&](std::int64_t all, std::int64_t columns) {
    return rows_of_core(two, tile, all, columns, 0, 32);
  };
  EXPECT_EQ(rows(333, 129), 171) << "three panels";
  EXPECT_EQ(rows(333, 190), 0) << "four panels";
  EXPECT_EQ(rows(333, 60), 171) << "a panel and a vector";
  EXPECT_EQ(rows(332, 129), 171) << "a last tile that is shifted";
  EXPECT_EQ(rows(100, 129), 0) << "a last tile of its own";
  EXPECT_EQ(rows(333, 144), 0) << "whole panels are shared out with their rows";
  EXPECT_EQ(rows(9, 129), 0) << "a single row of tiles";
  EXPECT_EQ(rows(333, 40), 0) << "rows of a single panel are shared out";
  EXPECT_EQ(rows_of_core(two, {9, 3, 16, 1, 50e3}, 333, 129, 0, 32), 0) << "too short to be shared";
  EXPECT_EQ(rows_of_core(wide(), tile, 333, 129, 0, 32), 90) << "rows for each core";
  EXPECT_EQ(rows_of_core(two, tile, 333, 144, 20e3, 32), 171) << "panels that are packed for each core";
  EXPECT_EQ(rows_of_core(two, tile, 333, 129, 400e3, 32), 0) << "each core would pack for longer than it saves";
  two.cores = 1;
  EXPECT_EQ(rows(333, 129), 0);
}

TEST(RegisterTile, RowsBelowPackedPanelsAreCutForManyCores) {
  Device many = broadcasting();
  many.cores = 16;
  const RegisterTile tile{6, 4, 16, 1, 4e6};
  EXPECT_EQ(panel_row_parts(many, tile, 512, 8, 4e6, 32), 2);
  EXPECT_EQ(panel_row_parts(many, tile, 512, 16, 4e6, 32), 1) << "a panel for each core";
  EXPECT_EQ(panel_row_parts(many, tile, 512, 8, 100e3, 32), 1) << "tasks would be too short";
  EXPECT_EQ(panel_row_parts(many, tile, 509, 8, 4e6, 32), 1) << "no parts are equal";
  EXPECT_EQ(panel_row_parts(many, tile, 40, 8, 4e6, 32), 1) << "parts have no whole tiles, nor nearly";
  many.cores = 64;
  EXPECT_EQ(panel_row_parts(many, tile, 512, 8, 4e6, 32), 8);
}

TEST(RegisterTile, CountsTheLinesThatDotProductsWaitFor) {
  Device lines = wide(), one = wide();
  lines.caches = one.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  lines.fma_per_cycle = 2;
  one.fma_per_cycle = 1;
  const auto cycles = [](const Device& device, std::int64_t columns, std::int64_t depth) {
    return dot_product_cycles(device, 16, 32, {64, columns, depth}) / static_cast<double>(64 * columns * depth);
  };
  const double near = cycles(lines, 8, 512), columns = cycles(lines, 64, 512), both = cycles(lines, 64, 4096);
  EXPECT_GT(columns, 1.5 * near) << "columns come from the second cache";
  EXPECT_GT(both, 1.2 * columns) << "so do rows";
  EXPECT_LT(cycles(one, 64, 512), 1.1 * cycles(one, 8, 512)) << "arithmetic leaves the time";
}

TEST(RegisterTile, CountsTheBytesThatDotProductsTakeFromTheSecondCache) {
  Device device = wide();
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.fma_per_cycle = device.loads_per_cycle = 2;
  device.fma_latency = 4;
  device.issue_width = 6;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 8, 64, false}};
  const auto cycles = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    return dot_product_cycles(device, 8, 32, {rows, columns, depth}) / static_cast<double>(rows * columns * depth);
  };
  const double streamed = cycles(64, 64, 512);
  EXPECT_GT(streamed, 1.15 * cycles(4, 64, 512)) << "which few tiles of rows read";
  EXPECT_GT(streamed, 1.15 * cycles(64, 16, 512)) << "which stay in the first cache";
}

TEST(RegisterTile, HasFewSumsWhereTermsEvaluateAFunction) {
  TiledExtents sums{300, 224, 100};
  sums.term_cycles = 24;
  const RegisterTile tile = choose_tile(broadcasting(), 16, 32, sums);
  EXPECT_EQ(tile.rows * tile.vectors, 4) << "as many functions in one body as hide each other's latency";
  EXPECT_EQ(tile.lanes, 16);
  EXPECT_EQ(tile.chains, 1);
  sums.shared_columns = false;
  const RegisterTile apart = choose_tile(broadcasting(), 16, 32, sums);
  EXPECT_LE(apart.rows * apart.vectors * apart.chains, 4);
  const DotTile dots = choose_dot_tile(broadcasting(), sums);
  EXPECT_EQ(dots.rows * dots.columns, 4);
  sums.rows = 1;
  EXPECT_EQ(choose_dot_tile(broadcasting(), sums).columns, 4);
  sums.columns = 3;
  EXPECT_EQ(choose_dot_tile(broadcasting(), sums).columns, 3);
}

TEST(RegisterTile, HasFewerSumsWhereTermsTakeLongerThanProducts) {
  const TiledExtents products{300, 400, 100};
  TiledExtents distances = products;
  distances.term_cycles = 2;
  const auto sums = [](const RegisterTile& tile) { return tile.rows * tile.vectors; };
  EXPECT_LT(sums(choose_tile(broadcasting(), 16, 32, distances)), sums(choose_tile(broadcasting(), 16, 32, products)));
}

}  // namespace
}  // namespace lathe
