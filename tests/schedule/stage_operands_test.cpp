#include <fmt/format.h>

#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// out[f, i, j] = sum of w[f, c, r, s] * x[c, i * step + r, j * step + s]: windows of `taps` squared, `step` apart.
struct Windows {
  int filters, rows, depth, taps, step;
};

Func windows(const Windows& shape) {
  const int size = (shape.rows - 1) * shape.step + shape.taps;
  return parse_func(fmt::format(
      R"(func contraction(x: f32[{2}, {5}, {5}], w: f32[{0}, {2}, {3}, {3}], out: f32[{0}, {1}, {1}]) stage begin {{
  for f in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {1}) {{
    for c in [0, {2}) {{ for r in [0, {3}) {{ for s in [0, {3}) {{
      block product(space vf in [0, {0}) = f, space vi in [0, {1}) = i, space vj in [0, {1}) = j,
                    reduce vc in [0, {2}) = c, reduce vr in [0, {3}) = r, reduce vs in [0, {3}) = s)
          reads out[vf, vi, vj], w[vf, vc, vr, vs], x[vc, vi * {4} + vr, vj * {4} + vs] writes out[vf, vi, vj]
      {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vf, vi, vj] = 0.0f32 }}
        let sum: f32 = out[vf, vi, vj]
        let term: f32 = w[vf, vc, vr, vs] * x[vc, vi * {4} + vr, vj * {4} + vs]
        out[vf, vi, vj] = sum + term
      }} }} }} }} }} }} }}
}}
)",
      shape.filters, shape.rows, shape.depth, shape.taps, shape.step, size));
}

std::string decisions(const Windows& shape, const Device& device) {
  return decisions_on(windows(shape), device, "product");
}

TEST(StageOperands, CopiesWindowsThatDoNotOverlap) {
  for (const Device& device : {wide(), narrow()}) {
    for (const Windows& shape :
         {Windows{33, 9, 3, 1, 2}, Windows{34, 5, 2, 2, 2}, Windows{32, 4, 2, 5, 5}, Windows{40, 4, 2, 7, 6}}) {
      SCOPED_TRACE(fmt::format("{} taps, {} apart", shape.taps, shape.step));
      const std::string text = decisions(shape, device);
      EXPECT_NE(text.find("copy the windows of x for product\n"), std::string::npos);
      EXPECT_NE(text.find("tile product: "), std::string::npos);
    }
  }
  expect_golden(print(auto_schedule(windows({33, 9, 3, 2, 2}), wide())), "auto_windows.tir");
}

TEST(StageOperands, PadsWhatVectorsCannotWalkAndSetsItsStepsApart) {
  // Each element is read nine times: too few for a padded copy of what vectors can walk.
  const auto padded = [](int step) {
    return decisions_on(
        parse_func(fmt::format(R"(func padded(x: f32[{1}, {1}], w: f32[{2}, 3, 3], out: f32[{2}, 60, 60]) stage begin {{
  for f in [0, {2}) {{ for i in [0, 60) {{ for j in [0, 60) {{ for r in [0, 3) {{ for s in [0, 3) {{
    block product(space vf in [0, {2}) = f, space vi in [0, 60) = i, space vj in [0, 60) = j,
                  reduce vr in [0, 3) = r, reduce vs in [0, 3) = s)
        reads out[vf, vi, vj], w[vf, vr, vs], x[vi * {0} + vr - 1, vj * {0} + vs - 1] writes out[vf, vi, vj]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vf, vi, vj] = 0.0f32 }}
      let sum: f32 = out[vf, vi, vj]
      let term: f32 = w[vf, vr, vs] * select(0 < vi * {0} + vr && 0 < vj * {0} + vs && vi * {0} + vr < {1} && vj * {0} + vs < {1},
          x[vi * {0} + vr - 1, vj * {0} + vs - 1 if 0 < vi * {0} + vr && 0 < vj * {0} + vs && vi * {0} + vr < {1} && vj * {0} + vs < {1}], 0.0f32)
      out[vf, vi, vj] = sum + term
    }} }} }} }} }} }}
}}
)",
                               step, 60 * step, step * step)),
        wide(), "product");
  };
  EXPECT_EQ(padded(1).find("pad x once"), std::string::npos);
  const std::string apart = padded(2);
  EXPECT_NE(apart.find("pad x once for product, every 2 elements apart\n"), std::string::npos) << apart;
}

TEST(StageOperands, PadsInPlaceWhatVectorsWalkOnceResultsLieAsItDoes) {
  // By twos each element is read 2.25 times, along channels that results have in another place.
  const Func func = parse_func(R"(func padded(x: f32[12, 12, 32], w: f32[32, 3, 3], out: f32[32, 6, 6]) stage begin {
  for c in [0, 32) { for i in [0, 6) { for j in [0, 6) { for r in [0, 3) { for s in [0, 3) {
    block product(space vc in [0, 32) = c, space vi in [0, 6) = i, space vj in [0, 6) = j,
                  reduce vr in [0, 3) = r, reduce vs in [0, 3) = s)
        reads out[vc, vi, vj], w[vc, vr, vs], x[vi * 2 + vr - 1, vj * 2 + vs - 1, vc] writes out[vc, vi, vj]
    {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vc, vi, vj] = 0.0f32 }
      let sum: f32 = out[vc, vi, vj]
      let term: f32 = w[vc, vr, vs] * select(0 < vi * 2 + vr && 0 < vj * 2 + vs,
          x[vi * 2 + vr - 1, vj * 2 + vs - 1, vc if 0 < vi * 2 + vr && 0 < vj * 2 + vs], 0.0f32)
      out[vc, vi, vj] = sum + term
    } } } } } }
})");
  const std::string decisions = decisions_on(func, wide(), "product");
  EXPECT_EQ(decisions.find("pad x once"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("lay the results of product as its operand lies\n"), std::string::npos) << decisions;
  expect_scheduled_well(func);
}

/// out[i, j, f] = sum of x[i + r - 1, j + s - 1, f // 8 * 3 + c] * w[r, s, c, f], with zeros around x.
TEST(StageOperands, PadsWhatVectorsTakeOneElementOfAtATime) {
  const std::string text =
      decisions_on(parse_func(R"(func pixels(x: f32[4, 5, 288], w: f32[3, 3, 3, 768], out: f32[4, 5, 768]) stage begin {
  for i in [0, 4) { for j in [0, 5) { for f in [0, 768) { for r in [0, 3) { for s in [0, 3) { for c in [0, 3) {
    block product(space vi in [0, 4) = i, space vj in [0, 5) = j, space vf in [0, 768) = f,
                  reduce vr in [0, 3) = r, reduce vs in [0, 3) = s, reduce vc in [0, 3) = c)
        reads out[vi, vj, vf], w[vr, vs, vc, vf], x[..] writes out[vi, vj, vf]
    {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vi, vj, vf] = 0.0f32 }
      let sum: f32 = out[vi, vj, vf]
      let term: f32 = w[vr, vs, vc, vf] * select(0 < vi + vr && 0 < vj + vs && vi + vr < 5 && vj + vs < 6,
          x[vi + vr - 1, vj + vs - 1, vf // 8 * 3 + vc if 0 < vi + vr && 0 < vj + vs && vi + vr < 5 && vj + vs < 6],
          0.0f32)
      out[vi, vj, vf] = sum + term
    } } } } } } }
}
)"),
                   wide(), "product");
  EXPECT_NE(text.find("pad x once for product\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tile product: "), std::string::npos) << text;
}

TEST(StageOperands, SetsTheStepsOfOverlappingWindowsApart) {
  for (const Device& device : {wide(), narrow()}) {
    for (const Windows& shape : {Windows{33, 9, 3, 3, 2}, Windows{34, 17, 2, 4, 3}, Windows{34, 6, 1, 2, 1}}) {
      SCOPED_TRACE(fmt::format("{} taps, {} apart", shape.taps, shape.step));
      const std::string text = decisions(shape, device);
      const bool apart = shape.step > 1;
      EXPECT_EQ(text.find(fmt::format("set every {} elements of x apart", shape.step)) != std::string::npos, apart);
      EXPECT_EQ(text.find("copy the windows"), std::string::npos);
      EXPECT_NE(text.find("tile product: "), std::string::npos);
    }
  }
  expect_golden(print(auto_schedule(windows({33, 9, 3, 3, 2}), wide())), "auto_steps.tir");
}

/// Patches of an image as the rows of a matrix, and weights, as views read them.
Func patches(int filters, int side, int taps) {
  return parse_func(fmt::format(
      R"(func patches(x: f32[3, {3}, {3}], w: f32[{0}, 3, {2}, {2}], out: f32[{1}, {0}]) stage begin {{
  for i in [0, {1}) {{ for j in [0, {0}) {{ for k in [0, {4}) {{
    block product(space vi in [0, {1}) = i, space vj in [0, {0}) = j, reduce vk in [0, {4}) = k)
        reads out[vi, vj], x[..], w[vj, .., .., ..] writes out[vi, vj]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj] = 0.0f32 }}
      let sum: f32 = out[vi, vj]
      let term: f32 = x[vk // {5}, vi // {6} * {2} + vk // {2} % {2}, vi % {6} * {2} + vk % {2}] *
                      w[vj, vk // {5}, vk // {2} % {2}, vk % {2}]
      out[vi, vj] = sum + term
    }} }} }} }}
}}
)",
      filters, side * side, taps, side * taps, 3 * taps * taps, taps * taps, side));
}

TEST(StageOperands, CopiesWhatJoinedAxesRead) {
  for (const Device& device : {wide(), narrow()}) {
    const std::string text = decisions_on(patches(40, 5, 4), device, "product");
    EXPECT_NE(text.find("copy what joined axes of product read of x\n"), std::string::npos) << text;
    EXPECT_NE(text.find("tile product: "), std::string::npos) << text;
  }
  expect_scheduled_well(patches(40, 5, 4));
  // Each element of the copy would be read twice.
  EXPECT_EQ(decisions_on(patches(2, 5, 4), wide(), "product").find("copy what joined axes"), std::string::npos);
}

TEST(StageOperands, LeavesWhatFewRead) {
  EXPECT_EQ(decisions({3, 9, 3, 1, 2}, wide()).find("copy"), std::string::npos);
  EXPECT_NE(decisions({1, 9, 3, 3, 2}, wide()).find("apart"), std::string::npos);
  EXPECT_EQ(decisions({1, 9, 3, 2, 2}, wide()).find("apart"), std::string::npos);
}

/// Panels are copied of what is proved to be written whole alone, which a layout by extremes is not.
TEST(StageOperands, TilesWhereNoPanelCanBePacked) {
  const Func func = parse_func(R"(func product(x: f32[200, 800], w: f32[200, 200], out: f32[200, 400]) stage begin {
  block root() reads x[..], w[..] writes out[..] {
    alloc apart: f32[200, 2, 400]
    for k in [0, 200) { for j in [0, 800) {
      block halves(space vk in [0, 200) = k, space vj in [0, 800) = j)
          reads x[vk, vj] writes apart[vk, min(vj % 2, 1), vj // 2]
      { apart[vk, min(vj % 2, 1), vj // 2] = x[vk, vj] }
    } }
    for f in [0, 200) { for j1 in [0, 400) { for k1 in [0, 200) {
      block product(space vf in [0, 200) = f, space uj in [0, 400) = j1, reduce uk in [0, 200) = k1)
          reads out[vf, uj], apart[uk, 1, uj], w[vf, uk] writes out[vf, uj]
      {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vf, uj] = 0.0f32 }
        let sum: f32 = out[vf, uj]
        let term: f32 = w[vf, uk] * apart[uk, 1, uj]
        out[vf, uj] = sum + term
      }
    } } }
  }
}
)");
  ScheduleLog log;
  auto_schedule(func, wide(), &log);
  std::string text;
  for (const std::string& decision : log.decisions) text += decision + "\n";
  EXPECT_NE(text.find("panels of apart: cache_read"), std::string::npos) << text;
  EXPECT_NE(text.find("tile product: "), std::string::npos);
}

/// Sums of `taps` elements of a row of 100, of 3 times 4 such rows, that lie beside each other around its middle but
/// for `place`, which says where those beyond its ends are.
Func bordered(const std::string& place, int taps) {
  return parse_func(fmt::format(R"(func blur(x: f32[3, 4, 100], w: f32[{1}], out: f32[3, 4, 100]) stage begin {{
  block root() reads x[..], w[..] writes out[..] {{
    for b in [0, 3) {{ for i in [0, 4) {{ for j in [0, 100) {{ for k in [0, {1}) {{
      block sum(space vb in [0, 3) = b, space vi in [0, 4) = i, space vj in [0, 100) = j, reduce vk in [0, {1}) = k)
          reads out[vb, vi, vj], w[vk], x[vb, vi, ..] writes out[vb, vi, vj]
      {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vb, vi, vj] = 0.0f32 }}
        let l: f32 = out[vb, vi, vj]
        let r: f32 = x[vb, vi, {0}] * w[vk]
        out[vb, vi, vj] = l + r
      }} }} }} }} }}
  }}
}}
)",
                                place, taps));
}

TEST(StageOperands, PadsRowsOnceAndCutsTheirEndsOff) {
  for (const char* place : {"99 - abs(99 - abs(vj + vk - 4))", "min(abs(vj + vk - 4), 198 - abs(vj + vk - 4))",
                            "(vj + vk + 96) % 100", "min(max(vj + vk - 4, 0), 99)"}) {
    const Func blur = bordered(place, 9);
    const std::string whole = decisions_on(blur, wide(), "");
    for (const char* decision : {"pad x once for sum\n", "join axes of sum to 12 rows\n", "tile the reduction sum\n",
                                 "cut x_pad where it chooses by its place\n", "vectorize x_pad_"})
      EXPECT_NE(whole.find(decision), std::string::npos) << place << ": " << whole;
    expect_scheduled_well(blur);
  }
}

TEST(StageOperands, CutsTheEndsOfShortSumsOffThemselves) {
  const Func blur = bordered("99 - abs(99 - abs(vj + vk - 1))", 3);
  EXPECT_TRUE(says(decisions_on(blur, wide(), "sum"), "cut sum where it chooses by its place"));
  expect_scheduled_well(blur);
}

}  // namespace
}  // namespace lathe::testing
