#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// out[b, f, i] = epilogue(sum of w[f, k, t] * x[b, k, i + t]): i is contiguous, f walks the weights alone. With groups
/// each has channels of its own.
struct Shape {
  int batch, filters, rows, depth, taps = 3;
  std::string weights = "fkt";  ///< the order of w's dimensions
  const char* epilogue = "sums[ub, uf, ui]";
  int groups = 1;
};

Func sliding_sums(const Shape& shape) {
  std::string indices, extents;
  for (const char name : shape.weights) {
    const std::string comma = indices.empty() ? "" : ", ";
    indices += fmt::format("{}v{}", comma, name);
    extents += fmt::format("{}{}", comma, name == 'f' ? shape.filters : name == 'k' ? shape.depth : shape.taps);
  }
  const std::string channel =
      shape.groups == 1 ? "vk" : fmt::format("vf // {} * {} + vk", shape.filters / shape.groups, shape.depth);
  return parse_func(fmt::format(
      R"(func contraction(x: f32[{0}, {9}, {7}], w: f32[{8}], c: f32[{0}, {1}, {2}], out: f32[{0}, {1}, {2}]) stage begin {{
  block root() reads x[..], w[..], c[..] writes out[..] {{
    alloc sums: f32[{0}, {1}, {2}]
    for b in [0, {0}) {{ for f in [0, {1}) {{ for i in [0, {2}) {{ for k in [0, {3}) {{ for t in [0, {4}) {{
      block product(space vb in [0, {0}) = b, space vf in [0, {1}) = f, space vi in [0, {2}) = i,
                    reduce vk in [0, {3}) = k, reduce vt in [0, {4}) = t)
          reads sums[vb, vf, vi], w[{5}], x[vb, {10}, vi + vt] writes sums[vb, vf, vi]
      {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ sums[vb, vf, vi] = 0.0f32 }}
        let l: f32 = sums[vb, vf, vi]
        let r: f32 = w[{5}] * x[vb, {10}, vi + vt]
        sums[vb, vf, vi] = l + r
      }} }} }} }} }} }}
    for b1 in [0, {0}) {{ for f1 in [0, {1}) {{ for i1 in [0, {2}) {{
      block store(space ub in [0, {0}) = b1, space uf in [0, {1}) = f1, space ui in [0, {2}) = i1)
          reads sums[ub, uf, ui], c[ub, uf, ui] writes out[ub, uf, ui]
      {{ out[ub, uf, ui] = {6} }} }} }} }}
  }}
}}
)",
      shape.batch, shape.filters, shape.rows, shape.depth, shape.taps, indices, shape.epilogue,
      shape.rows + shape.taps - 1, extents, shape.groups * shape.depth, channel));
}

/// Zen 4's: one unit of 512 bits is two of 256.
Device fused(Device device) {
  device.fused_multiply_add = true;
  device.fma_per_cycle = 1;
  return device;
}

bool lays_across(const Func& func, const Device& device) {
  return decides(func, device, "lay the vectors of product across memory");
}

bool lies_across(const Shape& shape, const Device& device) {
  const std::string decisions = decisions_on(sliding_sums(shape), device, "product");
  return ("\n" + decisions).find("\nlay the vectors of product across memory\n") != std::string::npos;
}

TEST(VectorsAcross, AreTakenWhereRowsAreShort) {
  const char* epilogue = "max(sums[ub, uf, ui] + c[ub, uf, ui], 0.0f32)";
  for (const int rows : {3, 5, 12}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    EXPECT_TRUE(lies_across({10, 32, rows, 40}, fused(wide())));
    EXPECT_TRUE(lies_across({10, 32, rows, 120, 3, "fkt", epilogue}, fused(wide())));
  }
  expect_golden(print(auto_schedule(sliding_sums({10, 32, 12, 40}), fused(wide()))), "auto_across.tir");
}

TEST(VectorsAcross, WalkAnOperandOfAnyLayout) {
  EXPECT_TRUE(lies_across({12, 32, 5, 40, 3, "ktf"}, fused(wide())));
  EXPECT_TRUE(lies_across({12, 32, 5, 41}, fused(wide()))) << "squares leave steps over";
  EXPECT_TRUE(lies_across({12, 32, 5, 40, 3, "kft"}, fused(wide()))) << "no square fits";
}

TEST(VectorsAcross, StayInAGroup) {
  const auto grouped = [](int filters, int groups) {
    return Shape{10, filters, 12, 40, 3, "fkt", "sums[ub, uf, ui]", groups};
  };
  EXPECT_TRUE(lies_across(grouped(64, 2), fused(wide())));
  EXPECT_TRUE(lies_across(grouped(96, 2), fused(wide()))) << "48 filters each";
  EXPECT_FALSE(lies_across(grouped(40, 2), fused(wide()))) << "20 filters fill no vectors";
  expect_golden(print(auto_schedule(sliding_sums(grouped(64, 2)), fused(wide()))), "auto_across_groups.tir");
}

TEST(VectorsAcross, HavePanelsPackedWhereTheyAreNeeded) {
  Device single = fused(wide());
  single.cores = 1;
  EXPECT_TRUE(lies_across({6, 256, 12, 40}, single));
  expect_golden(print(auto_schedule(sliding_sums({6, 256, 12, 40}), single)), "auto_across_panels.tir");
}

TEST(VectorsAcross, AreTurnedBackByStrips) {
  // AVX2: tiles of six rows, which are no multiple of a square's side.
  Device device = fused(wide());
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.mask_registers = 0;
  device.fma_per_cycle = 2;
  EXPECT_TRUE(lies_across({3, 32, 20, 40}, device)) << "a strip of all rows";
  EXPECT_TRUE(lies_across({5, 32, 10, 40}, device)) << "rows beside whole squares";
  device.caches = {{16384, 8, 64, false}};
  EXPECT_TRUE(lies_across({1, 32, 100, 40}, device)) << "two strips, the second shorter";
  expect_golden(print(auto_schedule(sliding_sums({1, 32, 100, 40}), device)), "auto_across_strips.tir");
}

TEST(VectorsAcross, PackWhatResiduesShareOnce) {
  // A transposed convolution by two: taps of either parity, from the last to the first.
  const Func before =
      parse_func(R"(func residues(x: f32[8, 40, 14], w: f32[64, 40, 4], out: f32[8, 64, 24]) stage begin {
  block root() reads x[..], w[..] writes out[..] {
    alloc sums: f32[2, 8, 64, 12]
    for s in [0, 2) { for b in [0, 8) { for f in [0, 64) { for i in [0, 12) { for k in [0, 40) { for t in [0, 2) {
      block product(space vs in [0, 2) = s, space vb in [0, 8) = b, space vf in [0, 64) = f, space vi in [0, 12) = i,
                    reduce vk in [0, 40) = k, reduce vt in [0, 2) = t)
          reads sums[vs, vb, vf, vi], w[vf, vk, 3 - vt * 2 - vs], x[vb, vk, vi + vs + vt] writes sums[vs, vb, vf, vi]
      {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { sums[vs, vb, vf, vi] = 0.0f32 }
        let l: f32 = sums[vs, vb, vf, vi]
        let r: f32 = w[vf, vk, 3 - vt * 2 - vs] * x[vb, vk, vi + vs + vt]
        sums[vs, vb, vf, vi] = l + r
      } } } } } } }
    for s1 in [0, 2) { for b1 in [0, 8) { for f1 in [0, 64) { for i1 in [0, 12) {
      block store(space us in [0, 2) = s1, space ub in [0, 8) = b1, space uf in [0, 64) = f1, space ui in [0, 12) = i1)
          reads sums[us, ub, uf, ui] writes out[ub, uf, ui * 2 + us]
      { out[ub, uf, ui * 2 + us] = sums[us, ub, uf, ui] } } } } }
  }
}
)");
  Device single = fused(wide());
  single.cores = 1;
  const std::string decisions = decisions_on(before, single, "product");
  EXPECT_NE(("\n" + decisions).find("\nlay the vectors of product"), std::string::npos) << decisions;
  expect_golden(print(auto_schedule(before, single)), "auto_across_residues.tir");
}

TEST(VectorsAcross, WalkAllPanelsForARowOfWhatIsLarger) {
  Device device = fused(wide());
  device.caches = {{4096, 8, 64, false}, {73728, 8, 64, false}};
  EXPECT_TRUE(lies_across({34, 128, 12, 20}, device));
  expect_golden(print(auto_schedule(sliding_sums({34, 128, 12, 20}), device)), "auto_across_panels_inside.tir");
}

TEST(VectorsAcross, TakeSumsInPartsWhosePanelsStayInTheFirstCache) {
  Device lines = fused(wide());
  lines.cores = 1;
  lines.fma_per_cycle = 2;
  lines.caches = {{4096, 8, 64, false}, {65536, 16, 64, false}};
  const Shape shape{10, 32, 12, 40};
  const std::string parts = decisions_on(sliding_sums(shape), lines, "product");
  EXPECT_NE(parts.find("take product in parts of 2 steps, 2 rows at a time"), std::string::npos) << parts;
  expect_golden(print(auto_schedule(sliding_sums(shape), lines)), "auto_across_parts.tir");
  const std::string near = decisions_on(sliding_sums({10, 32, 12, 8}), lines, "product");
  EXPECT_EQ(near.find("in parts of"), std::string::npos) << "a panel of 3 KB stays: " << near;
  lines.fma_per_cycle = 1;
  const std::string slower = decisions_on(sliding_sums(shape), lines, "product");
  EXPECT_EQ(slower.find("in parts of"), std::string::npos) << "arithmetic covers lines: " << slower;
}

TEST(VectorsAcross, AreLeftWhereStepsOfRowsComeFromBeyondTheSecondCache) {
  Device half = fused(wide());
  half.vector_bits = 256;
  half.vector_registers = 16;
  half.fma_per_cycle = 2;
  half.issue_width = 6;
  half.caches = {{32 << 10, 8, 64, false}, {1 << 20, 8, 64, false}};
  const auto across = [&](int m, int n, int k) { return lays_across(matmul(m, n, k, false), half); };
  EXPECT_FALSE(across(32, 1024, 1024));
  EXPECT_TRUE(across(16, 777, 2048)) << "one strip finds the lines of its last tile";
  EXPECT_FALSE(across(48, 777, 2048)) << "further strips read all of it again";
  EXPECT_FALSE(across(16, 777, 4096)) << "it exceeds the caches";
  EXPECT_FALSE(across(16, 512, 2048)) << "the lines of all steps meet in few sets";
  const auto doubles_across = [&](int m, int n, int k) {
    return lays_across(parse_func(fmt::format(
                           R"(func f(a: f64[{0}, {2}], b: f64[{2}, {1}], out: f64[{0}, {1}]) stage begin {{
  block root() reads a[..], b[..] writes out[..] {{
    for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
      block product(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
          reads out[vi, vj], a[vi, vk], b[vk, vj] writes out[vi, vj] {{
        reducer (lhs: f64) (rhs: f64) {{lhs + rhs}} identity {{0.0f64}}
        init {{ out[vi, vj] = 0.0f64 }}
        let l: f64 = out[vi, vj]
        let r: f64 = a[vi, vk] * b[vk, vj]
        out[vi, vj] = l + r }} }} }} }} }} }})",
                           m, n, k)),
                       half);
  };
  half.mask_registers = 0;
  half.cores = 1;
  half.caches[1].bytes = 512 << 10;
  EXPECT_FALSE(doubles_across(256, 1024, 512)) << "the panel pushes them out of the first cache";
}

TEST(VectorsAcross, AreLeftWhereStepsOfRowsLieFarApart) {
  const auto lies_across = [](int channels, int side, int multiply_adds) {
    Device device = fused(wide());
    device.fma_per_cycle = multiply_adds;
    device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
    const Func func = parse_func(fmt::format(
        R"(func f(x: f32[{0}, {1}, {1}], w: f32[128, {0}], out: f32[128, {1}, {1}]) stage begin {{
  block root() reads x[..], w[..] writes out[..] {{
    for f in [0, 128) {{ for i in [0, {1}) {{ for j in [0, {1}) {{ for c in [0, {0}) {{ for t in [0, 1) {{
      block product(space vf in [0, 128) = f, space vi in [0, {1}) = i, space vj in [0, {1}) = j, reduce vc in [0, {0}) = c,
                    reduce vt in [0, 1) = t)
          reads out[vf, vi, vj], x[vc, vi, vj + vt], w[vf, vc] writes out[vf, vi, vj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vf, vi, vj] = 0.0f32 }}
        let l: f32 = out[vf, vi, vj]
        let r: f32 = x[vc, vi, vj + vt] * w[vf, vc]
        out[vf, vi, vj] = l + r }} }} }} }} }} }} }} }})",
        channels, side));
    return lays_across(func, device);
  };
  EXPECT_FALSE(lies_across(512, 20, 2));
  EXPECT_TRUE(lies_across(512, 20, 1)) << "a tile's arithmetic covers what its steps wait";
  EXPECT_TRUE(lies_across(256, 20, 2)) << "what is read stays in the second cache";
  EXPECT_TRUE(lies_across(1024, 14, 2)) << "hardware brings lines that are near";
}

TEST(VectorsAcross, AreTakenWhereRowsCrossLinesThatMultiplicationsLeaveNoTimeFor) {
  Device device = wide();
  device.fma_per_cycle = 2;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  const auto across = [&](int rows) {
    return lays_across(sliding_sums({.batch = 6, .filters = 128, .rows = rows, .depth = 192}), device);
  };
  EXPECT_TRUE(across(28));
  EXPECT_FALSE(across(30)) << "rows begin with lines";
  device.caches[1].bytes = 256 << 10;
  EXPECT_FALSE(across(28)) << "the copy lies far";
}

TEST(VectorsAcross, AreLeftWhereTheyPayNothing) {
  EXPECT_FALSE(lies_across({12, 32, 32, 40}, fused(wide()))) << "rows fill vectors";
  EXPECT_FALSE(lies_across({1, 32, 3, 40}, fused(wide()))) << "few read the copy of the weights";
  EXPECT_FALSE(lies_across({12, 31, 5, 40}, fused(wide()))) << "filters fill no vectors";
  EXPECT_FALSE(lies_across({12, 32, 5, 40}, narrow())) << "products need registers of their own";
}

TEST(VectorsAcross, LeaveALongEpilogueToANestOfItsOwn) {
  const Shape shape{12, 32, 5, 40, 3, "fkt", "exp(exp(sums[ub, uf, ui]))"};
  EXPECT_TRUE(lies_across(shape, fused(wide())));
  const std::string text = print(auto_schedule(sliding_sums(shape), fused(wide())));
  EXPECT_NE(text.find("block product_copy"), std::string::npos) << text;
}

/// out[i, j] = epilogue(sum of x[i, k] * w[j, k]): both operands lie along the sum.
Func rows_by_rows(int rows, int columns, int depth) {
  return parse_func(fmt::format(
      R"(func contraction(x: f32[{0}, {2}], w: f32[{1}, {2}], c: f32[{1}], out: f32[{0}, {1}]) stage begin {{
  block root() reads x[..], w[..], c[..] writes out[..] {{
    alloc sums: f32[{0}, {1}]
    for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
      block product(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
          reads sums[vi, vj], x[vi, vk], w[vj, vk] writes sums[vi, vj]
      {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ sums[vi, vj] = 0.0f32 }}
        let l: f32 = sums[vi, vj]
        let r: f32 = x[vi, vk] * w[vj, vk]
        sums[vi, vj] = l + r
      }} }} }} }}
    for i1 in [0, {0}) {{ for j1 in [0, {1}) {{
      block store(space ui in [0, {0}) = i1, space uj in [0, {1}) = j1) reads sums[ui, uj], c[uj] writes out[ui, uj]
      {{ out[ui, uj] = max(sums[ui, uj] + c[uj], 0.0f32) }} }} }}
  }}
}}
)",
      rows, columns, depth));
}

TEST(VectorsAcross, WalkTheShorterOfTwoOperandsAlongTheSum) {
  Device device = fused(wide());
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  const auto lies = [&](int rows, int columns, int depth) {
    const std::string decisions = decisions_on(rows_by_rows(rows, columns, depth), device, "product");
    return ("\n" + decisions).find("\nlay the vectors of product across memory\n") != std::string::npos;
  };
  EXPECT_TRUE(lies(16, 200, 300));
  EXPECT_TRUE(lies(32, 197, 301)) << "squares and tiles leave columns and steps over";
  EXPECT_FALSE(lies(12, 100, 300)) << "rows fill no vectors";
  EXPECT_FALSE(lies(128, 64, 300)) << "the other operand is the shorter one";
  expect_golden(print(auto_schedule(rows_by_rows(32, 200, 300), device)), "auto_across_sums.tir");
}

TEST(VectorsAcross, WalkRowsAgainForEachPanelWhereThatIsNotFar) {
  Device device = fused(wide());
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.caches = {{32 << 10, 8, 64, false}, {512 << 10, 8, 64, false}};
  device.fma_per_cycle = 2;
  const auto panels = [&](std::int64_t own) {
    device.caches[1].bytes = own;
    ScheduleLog log;
    auto_schedule(rows_by_rows(64, 1024, 768), device, &log);
    return fmt::format("{}", fmt::join(log.decisions, "\n"));
  };
  EXPECT_NE(panels(512 << 10).find("6 rows x 2 vectors"), std::string::npos) << panels(512 << 10);
  EXPECT_EQ(panels(256 << 10).find("6 rows x 2 vectors"), std::string::npos) << "rows of 3 MB are far";
}

/// Of images with their channels last, each group of ten summed by one filter, whose channels come first or last.
TEST(AlignSteps, OfWeightsWhoseChannelsComeFirst) {
  const auto decisions = [](int side, const std::string& weights, const std::string& place) {
    const int results = side - 2;
    const Func func = parse_func(fmt::format(
        R"(func grouped(x: f32[{0}, {0}, 40], w: f32[{2}], out: f32[{1}, {1}, 4]) stage begin {{
  block root() reads x[..], w[..], out[..] writes out[..] {{
    for i in [0, {1}) {{ for j in [0, {1}) {{ for f in [0, 4) {{ for c in [0, 10) {{ for r in [0, 3) {{ for s in [0, 3) {{
      block sum(space vi in [0, {1}) = i, space vj in [0, {1}) = j, space vf in [0, 4) = f, reduce vc in [0, 10) = c,
                reduce vr in [0, 3) = r, reduce vs in [0, 3) = s)
          reads x[vi + vr, vj + vs, vf * 10 + vc], w[..], out[vi, vj, vf] writes out[vi, vj, vf] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi, vj, vf] = 0.0f32 }}
        let a: f32 = out[vi, vj, vf]
        let b: f32 = x[vi + vr, vj + vs, vf * 10 + vc] * w[{3}]
        out[vi, vj, vf] = a + b }} }} }} }} }} }} }} }} }})",
        side, results, weights, place));
    return decisions_on(func, wide(), "sum");
  };
  const std::string first = decisions(12, "4, 10, 3, 3", "vf, vc, vr, vs"),
                    last = decisions(12, "4, 3, 3, 10", "vf, vr, vs, vc"),
                    small = decisions(5, "4, 10, 3, 3", "vf, vc, vr, vs");
  EXPECT_TRUE(says(first, "have w lie along the steps of sum")) << first;
  EXPECT_TRUE(says(first, "tile sum: ") && says(last, "tile sum: ")) << first << last;
  EXPECT_EQ(last.find("have w lie"), std::string::npos) << last;
  EXPECT_EQ(small.find("have w lie"), std::string::npos) << "each weight is read nine times\n" << small;
}

}  // namespace
}  // namespace lathe::testing
