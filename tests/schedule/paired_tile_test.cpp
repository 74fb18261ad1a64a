#include "schedule/auto/paired_tile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/schedule/auto_support.h"

namespace lathe {
namespace {

/// One multiply-add of 512 bits a cycle, after four cycles.
Device joined_units() {
  Device device = testing::wide();
  device.vector_bits = 512;
  device.vector_registers = 32;
  device.fused_multiply_add = true;
  device.fma_per_cycle = 1;
  device.fma_latency = 4;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 8, 64, false}};
  return device;
}

TEST(PairedTile, HasSumsInFlightWhereLinesComeFromTheSecondCache) {
  // The lines of tiles of two by two would just fit the first cache, but the next tile's come from the second.
  const PairedTile tile = choose_paired_tile(joined_units(), 16, 32, {31, 63, 32, 120});
  EXPECT_GE(tile.rows, 3);
  EXPECT_GE(tile.others, 3);
}

TEST(PairedTile, FitsTheRegisters) {
  for (const int registers : {16, 32}) {
    Device device = joined_units();
    device.vector_registers = registers;
    for (const std::int64_t rows : {1, 2, 7, 64}) {
      for (const std::int64_t others : {1, 3, 40}) {
        const PairedTile tile = choose_paired_tile(device, 16, 32, {rows, others, 50, 30});
        EXPECT_LT(tile.rows * tile.others + std::min(tile.rows, tile.others) + 1, registers);
        EXPECT_LE(tile.rows, rows);
        EXPECT_LE(tile.others, others);
      }
    }
  }
}

TEST(PairedTile, EstimatesLinesFromTheSecondCache) {
  const PairedTile near = choose_paired_tile(joined_units(), 16, 32, {4, 4, 160, 30}),
                   far = choose_paired_tile(joined_units(), 16, 32, {40, 40, 16, 30});
  EXPECT_GT(far.cycles, 10 * near.cycles) << "ten times the sums, of rows that the first cache does not hold";
}

}  // namespace
}  // namespace lathe
