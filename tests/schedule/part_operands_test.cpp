// Operands of which a tile reads some elements of each line, copied so that they lie together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// Two multiply-adds a cycle of vectors that are lines of the first cache.
Device lines() {
  Device device = wide();
  device.fma_per_cycle = 2;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  return device;
}

/// out[p, f, i, j] = sum of w[c, f, rows - 1 - r, 3 - 2 * s - p] * x[c, i + r, j + s + p]: residues p of the taps along
/// a row, of which there are 16 in all.
Func residues(int filters, int size, int depth, const std::string& tap = "3 - vs * 2 - vp", int rows = 4) {
  return parse_func(fmt::format(
      R"(func contraction(x: f32[{2}, {3}, {4}], w: f32[{2}, {0}, {6}, {8}], out: f32[2, {0}, {1}, {1}]) stage begin {{
  for p in [0, 2) {{ for f in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {1}) {{
    for c in [0, {2}) {{ for r in [0, {6}) {{ for s in [0, {9}) {{
      block product(space vp in [0, 2) = p, space vf in [0, {0}) = f, space vi in [0, {1}) = i,
                    space vj in [0, {1}) = j, reduce vc in [0, {2}) = c, reduce vr in [0, {6}) = r,
                    reduce vs in [0, {9}) = s)
          reads out[vp, vf, vi, vj], w[vc, vf, {7} - vr, {5}], x[vc, vi + vr, vj + vs + vp] writes out[vp, vf, vi, vj]
      {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vp, vf, vi, vj] = 0.0f32 }}
        let sum: f32 = out[vp, vf, vi, vj]
        let term: f32 = w[vc, vf, {7} - vr, {5}] * x[vc, vi + vr, vj + vs + vp]
        out[vp, vf, vi, vj] = sum + term
      }} }} }} }} }} }} }} }}
}}
)",
      filters, size, depth, size + rows - 1, size + 8 / rows, tap, rows, rows - 1, 16 / rows, 8 / rows));
}

bool parts(const Func& func, const Device& device) {
  return decides(func, device, "bring what tiles of product read of w together");
}

TEST(PartOperands, BringsTogetherWhatThePassOfAResidueReads) {
  const Func func = residues(32, 32, 32);
  EXPECT_TRUE(parts(func, lines()));
  expect_golden(print(auto_schedule(func, lines())), "auto_part_operands.tir");
}

TEST(PartOperands, TakesOneRowOfTaps) {
  const Func func = residues(32, 32, 32, "15 - vs * 2 - vp", 1);
  EXPECT_TRUE(parts(func, lines()));
}

TEST(PartOperands, OnlyWhereMultiplicationsLeaveLoadsNoTime) {
  Device slower = lines();
  slower.fma_per_cycle = 1;
  EXPECT_FALSE(parts(residues(32, 32, 32), slower));
}

TEST(PartOperands, LeavesWhatIsReadSeldomOrStaysInTheFirstCache) {
  EXPECT_FALSE(parts(residues(32, 16, 32), lines()));
  EXPECT_FALSE(parts(residues(16, 32, 16), lines()));
}

TEST(PartOperands, LeavesWhatTilesReadInWhole) {
  EXPECT_FALSE(parts(residues(32, 32, 32, "vp * 2 + vs"), lines())) << "what a pass reads is contiguous";
}

}  // namespace
}  // namespace lathe::testing
