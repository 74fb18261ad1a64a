#include <fmt/format.h>

#include <cstdio>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

Func product_of_lanes(int m, int n, int k, int batch) {
  return parse_func(fmt::format(
      R"(func lanes(x: f32[{0}, {2}, {3}], y: f32[{1}, {2}, {3}], out: f32[{0}, {1}, {3}]) stage begin {{
  for i in [0, {0}) {{ for j in [0, {1}) {{ for b in [0, {3}) {{ for k in [0, {2}) {{
    block product(space vi in [0, {0}) = i, space vj in [0, {1}) = j, space vb in [0, {3}) = b, reduce vk in [0, {2}) = k)
        reads out[vi, vj, vb], x[vi, vk, vb], y[vj, vk, vb] writes out[vi, vj, vb]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj, vb] = 0.0f32 }}
      let sum: f32 = out[vi, vj, vb]
      let term: f32 = x[vi, vk, vb] * y[vj, vk, vb]
      out[vi, vj, vb] = sum + term
    }} }} }} }} }}
}}
)",
      m, n, k, batch));
}

TEST(AutoSchedule, TilesBothSidesWhereOperandsLieAlongTheVectors) {
  for (const auto& [m, n, k, batch] : {std::tuple(8, 8, 5, 40), {7, 3, 4, 16}, {2, 5, 3, 17}, {9, 4, 1, 33}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}, {} lanes", m, n, k, batch));
    EXPECT_NE(decisions_on(product_of_lanes(m, n, k, batch), wide(), "product").find(" of either operand"),
              std::string::npos);
  }
  EXPECT_EQ(decisions_on(product_of_lanes(1, 8, 5, 40), wide(), "product").find(" of either operand"),
            std::string::npos);
}

TEST(AutoSchedule, TurnsAnOperandAlongTheReductionThatManyRowsShare) {
  EXPECT_NE(decisions_on(matmul(400, 35, 40, true), wide(), "product").find("turn b around for product\n"),
            std::string::npos);
  EXPECT_EQ(decisions_on(matmul(4, 35, 640, true), wide(), "product").find("turn"), std::string::npos);
}

/// out[i, f] = sum of x[i + t, c] * w[f, t, c]: channels are contiguous, as they are in images of pixels.
Func sums_of_pixels(int pixels, int filters, int channels) {
  return parse_func(fmt::format(
      R"(func pixels(x: f32[{3}, {2}], w: f32[{1}, 3, {2}], out: f32[{0}, {1}]) stage begin {{
  for i in [0, {0}) {{ for f in [0, {1}) {{ for t in [0, 3) {{ for c in [0, {2}) {{
    block product(space vi in [0, {0}) = i, space vf in [0, {1}) = f, reduce vt in [0, 3) = t, reduce vc in [0, {2}) = c)
        reads out[vi, vf], x[vi + vt, vc], w[vf, vt, vc] writes out[vi, vf]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vf] = 0.0f32 }}
      let sum: f32 = out[vi, vf]
      let term: f32 = x[vi + vt, vc] * w[vf, vt, vc]
      out[vi, vf] = sum + term
    }} }} }} }} }}
}}
)",
      pixels, filters, channels, pixels + 2));
}

TEST(AutoSchedule, LaysAnOperandThatItTurnsAroundOutByPanels) {
  // No panel of whole vectors divides the second case.
  for (const int columns : {96, 200}) {
    const std::string text = decisions_on(matmul(64, columns, 128, true), wide(), "product");
    EXPECT_NE(text.find("turn b around for product\n"), std::string::npos) << text;
    EXPECT_NE(text.find("lay b_global out by panels of "), std::string::npos) << text;
  }
  // One panel is all there is.
  EXPECT_EQ(decisions_on(matmul(64, 48, 128, true), wide(), "product").find("by panels"), std::string::npos);
}

TEST(AutoSchedule, TurnsAnOperandAroundWhoseRunsFillNoVectors) {
  const auto turns = [](int filters, int channels) {
    const std::string text = decisions_on(sums_of_pixels(50, filters, channels), wide(), "product");
    return text.find("turn w around for product\n") != std::string::npos;
  };
  EXPECT_TRUE(turns(32, 3));
  EXPECT_TRUE(turns(32, 17));
  EXPECT_FALSE(turns(2, 32)) << "dot products fill their vectors, columns would not";
}

/// out[i, f] = sum over c of x[i, f // run * depth + c] * w[c, f]: columns of a group share what rows have for them.
Func grouped_columns(int rows, int groups, int run, int depth) {
  return parse_func(fmt::format(
      R"(func columns(x: f32[{0}, {1}], w: f32[{2}, {3}], out: f32[{0}, {3}]) stage begin {{
  for i in [0, {0}) {{ for f in [0, {3}) {{ for c in [0, {2}) {{
    block product(space vi in [0, {0}) = i, space vf in [0, {3}) = f, reduce vc in [0, {2}) = c)
        reads out[vi, vf], x[vi, vf // {4} * {2} + vc], w[vc, vf] writes out[vi, vf]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vf] = 0.0f32 }}
      let sum: f32 = out[vi, vf]
      let term: f32 = x[vi, vf // {4} * {2} + vc] * w[vc, vf]
      out[vi, vf] = sum + term
    }} }} }} }}
}}
)",
      rows, groups * depth, depth, groups * run, run));
}

TEST(AutoSchedule, KeepsATileInARunOfColumnsThatShareAnOperand) {
  for (const auto& [groups, run] : {std::pair{3, 32}, {5, 8}, {2, 24}, {4, 16}, {2, 4}}) {
    SCOPED_TRACE(fmt::format("{} groups of {}", groups, run));
    for (const Device& device : {wide(), narrow()}) {
      const std::string text = decisions_on(grouped_columns(13, groups, run, 9), device, "product");
      EXPECT_NE(text.find("tile product: "), std::string::npos) << text;
    }
  }
  expect_golden(print(auto_schedule(grouped_columns(13, 3, 32, 9), wide())), "auto_grouped_columns.tir");
}

TEST(AutoSchedule, SplitsGroupsWhoseColumnsFillNoVectors) {
  for (const int run : {2, 3, 7, 10}) {
    SCOPED_TRACE(run);
    for (const bool is_wide : {true, false}) {
      const Device device = is_wide ? wide() : narrow();
      const Func func = grouped_columns(13, 4, run, 9);
      const std::string text = decisions_on(func, device, "product");
      EXPECT_NE(text.find("tile product: "), std::string::npos) << text;
      if (run == 10 && !is_wide) continue;  // whose vectors of two lanes divide it
      EXPECT_NE(text.find(fmt::format("split f of product by groups of {}\n", run)), std::string::npos) << text;
      EXPECT_EQ(print(auto_schedule(func, device)).find(fmt::format("x[vi, vf // {}", run)), std::string::npos);
    }
  }
  EXPECT_EQ(decisions_on(grouped_columns(13, 4, 16, 9), wide(), "product").find("by groups"), std::string::npos);
}

TEST(AutoSchedule, SplitsGroupsThatOnlyShortVectorsDivide) {
  const Device device = fused(wide(), 1);
  const auto splits = [&](int run) {
    return decisions_on(grouped_columns(26, 4, run, 18), device, "product").find("by groups") != std::string::npos;
  };
  EXPECT_TRUE(splits(6)) << "three vectors of two lanes, or one of eight";
  EXPECT_TRUE(splits(12));
  EXPECT_TRUE(splits(20)) << "five vectors of four lanes, or two of sixteen";
  EXPECT_FALSE(splits(24)) << "three vectors of eight lanes start as two of sixteen do";
  EXPECT_FALSE(splits(8));
}

/// out[i, f] = sum over c of x[i, f // 16 * 8 + c] * w[f, c]: what vectors along f need lies along the reduction.
TEST(AutoSchedule, TurnsWeightsAroundWhoseColumnsShareAnOperandInRuns) {
  const auto groups = [](int run) {
    return parse_func(fmt::format(
        R"(func columns(x: f32[70, {0}, 9], w: f32[{1}, 9, 2], out: f32[70, {1}]) stage begin {{
  for i in [0, 70) {{ for f in [0, {1}) {{ for c in [0, 9) {{ for r in [0, 2) {{
    block product(space vi in [0, 70) = i, space vf in [0, {1}) = f, reduce vc in [0, 9) = c, reduce vr in [0, 2) = r)
        reads out[vi, vf], x[..], w[vf, vc, vr] writes out[vi, vf]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vf] = 0.0f32 }}
      let sum: f32 = out[vi, vf]
      let term: f32 = x[vi, vf // {2} * 2 + vr, vc] * w[vf, vc, vr]
      out[vi, vf] = sum + term
    }} }} }} }} }}
}}
)",
        6, 3 * run, run));
  };
  for (const Device& device : {wide(), narrow()}) {
    for (const int run : {4, 16, 32}) {
      SCOPED_TRACE(run);
      const std::string text = decisions_on(groups(run), device, "product");
      EXPECT_NE(text.find("turn w around for product\n"), std::string::npos) << text;
      EXPECT_NE(text.find("tile product: "), std::string::npos) << text;
    }
    // Three columns of a group would leave most lanes idle.
    EXPECT_EQ(decisions_on(groups(3), device, "product").find("turn w"), std::string::npos);
  }
}

/// The same where the weights lie along the reduction, as rows do: dot products could walk both.
TEST(AutoSchedule, TurnsWeightsAroundWhoseColumnsAndRowsLieAlongTheReduction) {
  const Func func = parse_func(R"(func columns(x: f32[70, 80], w: f32[320, 20], out: f32[70, 320]) stage begin {
  for i in [0, 70) { for f in [0, 320) { for c in [0, 20) {
    block product(space vi in [0, 70) = i, space vf in [0, 320) = f, reduce vc in [0, 20) = c)
        reads out[vi, vf], x[..], w[vf, vc] writes out[vi, vf]
    {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vf] = 0.0f32 }
      let sum: f32 = out[vi, vf]
      let term: f32 = x[vi, vf // 80 * 20 + vc] * w[vf, vc]
      out[vi, vf] = sum + term
    } } } } }
)");
  const std::string text = decisions_on(func, wide(), "product");
  EXPECT_NE(text.find("turn w around for product\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("dot products"), std::string::npos) << text;
}

/// out[c, i, j] = sum of x[c, i + r - 1, j + s - 1] * w[c, r, s], with zeros around x: each channel for itself.
Func channel_sums(int channels, int rows, int columns) {
  return parse_func(fmt::format(
      R"(func channels(x: f32[{0}, {1}, {2}], w: f32[{0}, 3, 3], out: f32[{0}, {1}, {2}]) stage begin {{
  for c in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {2}) {{ for r in [0, 3) {{ for s in [0, 3) {{
    block product(space vc in [0, {0}) = c, space vi in [0, {1}) = i, space vj in [0, {2}) = j,
                  reduce vr in [0, 3) = r, reduce vs in [0, 3) = s)
        reads out[vc, vi, vj], x[..], w[vc, vr, vs] writes out[vc, vi, vj]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vc, vi, vj] = 0.0f32 }}
      let sum: f32 = out[vc, vi, vj]
      let term: f32 = select(0 < vi + vr && vi + vr <= {1} && 0 < vj + vs && vj + vs <= {2},
          x[vc, vi + vr - 1, vj + vs - 1 if 0 < vi + vr && vi + vr <= {1} && 0 < vj + vs && vj + vs <= {2}],
          0.0f32) * w[vc, vr, vs]
      out[vc, vi, vj] = sum + term
    }} }} }} }} }} }}
}}
)",
      channels, rows, columns));
}

TEST(AutoSchedule, KeepsSeveralRowsOnTheirWayThatShareNothingButOneFactor) {
  for (const auto& [rows, columns] : {std::pair{14, 14}, {7, 7}, {9, 16}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    const std::string text = decisions_on(channel_sums(5, rows, columns), wide(), "product");
    EXPECT_EQ(text.find("tile product: 1 rows"), std::string::npos) << text;
    EXPECT_EQ(text.find("pad x"), std::string::npos) << text;
  }
  const Func func = channel_sums(5, 14, 14);
  Device maskless = wide();
  maskless.mask_registers = 0;
  EXPECT_NE(decisions_on(func, maskless, "product").find("pad x once for product\n"), std::string::npos);
  EXPECT_NE(decisions_on(func, maskless, "x_pad").find("compute x_pad under "), std::string::npos);
  EXPECT_NE(decisions_on(func, maskless, "x_pad").find("fill the border of x_pad\n"), std::string::npos);
  expect_golden(print(auto_schedule(func, wide())), "auto_channels.tir");
  // Few of the vectors of a long row touch the padding.
  EXPECT_EQ(decisions_on(channel_sums(2, 3, 100), wide(), "product").find("pad"), std::string::npos);
}

/// out[i, j] = sum over c of what `term` makes of x.
Func sums_of(const char* x_shape, const char* term) {
  return parse_func(fmt::format(R"(func sums_of(x: f32{0}, out: f32[64, 250]) stage begin {{
  for i in [0, 64) {{
    for j in [0, 250) {{
      for c in [0, 4) {{
        block sums(space vi in [0, 64) = i, space vj in [0, 250) = j, reduce vc in [0, 4) = c)
            reads x[..]
            writes out[vi, vj]
        {{
          reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
          init {{
            out[vi, vj] = 0.0f32
          }}
          let l: f32 = out[vi, vj]
          let r: f32 = {1}
          out[vi, vj] = l + r
        }}
      }}
    }}
  }}
}}
)",
                                x_shape, term));
}

/// Rows times vectors of the tile that is chosen for block sums; 0 where none is.
int tiled_sums(const Func& func) {
  const std::string text = decisions_on(func, wide(), "sums");
  const size_t at = text.find("tile sums: ");
  int rows = 0, vectors = 0;
  if (at == std::string::npos) return 0;
  return std::sscanf(text.c_str() + at, "tile sums: %d rows x %d vectors", &rows, &vectors) == 2 ? rows * vectors : 0;
}

TEST(AutoSchedule, TakesNoMoreSumsAtOnceThanHideTheLatencyWhereTheyShareNothing) {
  const int plain = tiled_sums(sums_of("[64, 4, 250]", "x[vi, vc, vj]"));
  const int apart = tiled_sums(sums_of("[64, 1000]", "x[vi, vj * 4 + vc]"));
  const int costly = tiled_sums(sums_of("[64, 4, 250]", "exp(x[vi, vc, vj])"));
  EXPECT_GE(apart, 4);
  EXPECT_LE(apart, plain);
  EXPECT_GE(costly, 4);
  EXPECT_LE(costly, plain);
  EXPECT_LE(plain, 8);
}

/// out[f, j] = sum over c of x[f // kernels * depth + c, j] * w[f, c]: each group of `kernels` rows has rows of x of
/// its own.
Func grouped(int groups, int kernels, int depth, int columns) {
  return parse_func(fmt::format(
      R"(func grouped(x: f32[{0}, {3}], w: f32[{1}, {2}], out: f32[{1}, {3}]) stage begin {{
  for f in [0, {1}) {{
    for j in [0, {3}) {{
      for c in [0, {2}) {{
        block sums(space vf in [0, {1}) = f, space vj in [0, {3}) = j, reduce vc in [0, {2}) = c)
            reads out[vf, vj], x[vf // {4} * {2} + vc, vj], w[vf, vc]
            writes out[vf, vj]
        {{
          reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
          init {{
            out[vf, vj] = 0.0f32
          }}
          let l: f32 = out[vf, vj]
          let r: f32 = x[vf // {4} * {2} + vc, vj] * w[vf, vc]
          out[vf, vj] = l + r
        }}
      }}
    }}
  }}
}}
)",
      groups * depth, groups * kernels, depth, columns, kernels));
}

TEST(AutoSchedule, TilesRowsThatShareAnOperandInRuns) {
  EXPECT_NE(decisions_on(grouped(3, 8, 5, 48), wide(), "sums").find("tile sums: 8 rows x 3 vectors"),
            std::string::npos);
  for (const int kernels : {2, 3, 6, 7}) {
    for (const int columns : {5, 33}) {
      SCOPED_TRACE(fmt::format("groups of {}, {} columns", kernels, columns));
      expect_scheduled_well(grouped(3, kernels, 4, columns));
    }
  }
  expect_golden(print(auto_schedule(grouped(4, 6, 16, 32), wide())), "auto_grouped.tir");
}

/// total[i] = sum over k of x[i, k] * w[k], and what reads it.

Func windows(int points, int size, int stride, const std::string& dtype = "f32") {
  const std::string least = dtype == "f32" ? "-inf(f32)" : "-128" + dtype;
  return parse_func(fmt::format(R"(func windows(x: {3}[3, {4}], out: {3}[3, {0}]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for c in [0, 3) {{ for i in [0, {0}) {{ for r in [0, {1}) {{
      block greatest(space vc in [0, 3) = c, space vi in [0, {0}) = i, reduce vr in [0, {1}) = r)
          reads out[vc, vi], x[vc, vi * {2} + vr] writes out[vc, vi] {{
        reducer (lhs: {3}) (rhs: {3}) {{max(lhs, rhs)}} identity {{{5}}}
        init {{ out[vc, vi] = {5} }}
        let l: {3} = out[vc, vi]
        let t: {3} = x[vc, vi * {2} + vr]
        out[vc, vi] = max(l, t)
      }}
    }} }} }}
  }}
}}
)",
                                points, size, stride, dtype, (points - 1) * stride + size, least));
}

TEST(AutoSchedule, WalksWindowsThatMoveByAFewElements) {
  const auto tiled = [](const Func& func) { return decisions_on(func, wide(), "greatest").find("tile greatest: "); };
  for (const int stride : {2, 3, 4}) {
    SCOPED_TRACE(stride);
    EXPECT_NE(tiled(windows(40, 3, stride)), std::string::npos);
  }
  EXPECT_NE(tiled(windows(14, 3, 2)), std::string::npos);
  EXPECT_NE(tiled(windows(4, 2, 2)), std::string::npos);
  // Few of many elements, very short rows, long windows, and elements whose lanes are not picked at once.
  EXPECT_EQ(tiled(windows(40, 3, 5)), std::string::npos);
  EXPECT_EQ(tiled(windows(3, 3, 2)), std::string::npos);
  EXPECT_EQ(tiled(windows(40, 16, 2)), std::string::npos);
  EXPECT_EQ(tiled(windows(40, 3, 2, "i8")), std::string::npos);
}

TEST(AutoSchedule, SchedulesContractionsOfManyAxesInAnyOrder) {
  const Func func =
      parse_func(R"(func mixed(x: f32[64, 256, 3, 24], y: f32[64, 5, 24, 4], out: f32[5, 4, 256, 3]) stage begin {
  for d in [0, 5) { for c in [0, 4) { for a in [0, 256) { for b in [0, 3) { for e in [0, 64) { for f in [0, 24) {
    block sum(space vd in [0, 5) = d, space vc in [0, 4) = c, space va in [0, 256) = a, space vb in [0, 3) = b,
              reduce ve in [0, 64) = e, reduce vf in [0, 24) = f)
        reads out[vd, vc, va, vb], x[ve, va, vb, vf], y[ve, vd, vf, vc] writes out[vd, vc, va, vb] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vd, vc, va, vb] = 0.0f32 }
      let l: f32 = out[vd, vc, va, vb]
      let r: f32 = x[ve, va, vb, vf] * y[ve, vd, vf, vc]
      out[vd, vc, va, vb] = l + r } } } } } } } })");
  for (const Device& device : {wide(), fused(wide(), 2), narrow()}) EXPECT_NE(auto_schedule(func, device), func);
}

}  // namespace
}  // namespace lathe::testing
