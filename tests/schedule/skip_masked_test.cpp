#include "schedule/primitives/skip_masked.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/interpreter/interpreter.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums along the lower triangle of a, weighted by v.
Func triangle(const std::string& weight = "select(vk <= vi, a[vi, vk], 0.0f32)", const std::string& behind = "") {
  return parse_func(fmt::format(R"(func triangle(a: f32[8, 8], v: f32[8], out: f32[8], more: f32[8, 8]) stage begin {{
  block root() reads a[..], v[..], out[..] writes out[..], more[..] {{
    alloc p: f32[8, 8]
    for i in [0, 8) {{ for k in [0, 8) {{
      block p(space vi in [0, 8) = i, space vk in [0, 8) = k) reads a[vi, vk] writes p[vi, vk] {{
        p[vi, vk] = {}
      }}
    }} }}
    for i1 in [0, 8) {{ for k1 in [0, 8) {{
      block sum(space wi in [0, 8) = i1, reduce wk in [0, 8) = k1) reads out[wi], p[wi, wk], v[wk] writes out[wi] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[wi] = 0.0f32 }}
        let l: f32 = out[wi]
        let r: f32 = p[wi, wk] * v[wk]
        out[wi] = l + r
      }}
    }} }}
    {}
  }}
}}
)",
                                weight, behind));
}

/// Tiles of 2 rows by 4 columns, the weights of each computed there.
LoopRef tiled(Schedule& s) {
  const auto [io, ii] = split(s, s.loop("sum", 0), 2);
  const auto [ko, ki] = split(s, s.loop("sum", 2), 4);
  reorder(s, {io, ko, ii, ki});
  decompose_reduction(s, {"sum"}, ko);
  compute_at(s, {"p"}, ko);
  return ko;
}

std::vector<float> run(const Func& func, std::vector<float> a, std::vector<float> v) {
  std::vector<float> out(8), more(64);
  std::vector<HostBuffer> buffers;
  for (std::vector<float>* data : {&a, &v, &out, &more}) {
    auto* bytes = reinterpret_cast<std::byte*>(data->data());
    buffers.push_back({bytes, bytes, bytes + data->size() * sizeof(float)});
  }
  EXPECT_EQ(interpret(func, buffers, {}), 0);
  return out;
}

TEST(SkipMasked, LeavesOutTilesAboveTheDiagonal) {
  const Func before = triangle();
  Schedule s(before);
  skip_masked(s, {"sum"}, {tiled(s)});
  expect_scheduled(s, before, "skip_masked");
}

TEST(SkipMasked, NeedsOneOfSeveralMasks) {
  for (const char* weight :
       {"select(vk <= vi && vi <= vk + 3, a[vi, vk], 0.0f32)", "select(vk < vi || vk > 5, a[vi, vk], 0.0f32)",
        "exp2(select(vi >= vk, a[vi, vk], -inf(f32)))", "max(select(vi > vk, a[vi, vk], 0.0f32), 0.0f32)"}) {
    const Func before = triangle(weight);
    Schedule s(before);
    skip_masked(s, {"sum"}, {tiled(s)});
    expect_same(before, s.func());
  }
}

/// Zero times an element that is not finite is NaN, wherever the mask is false.
TEST(SkipMasked, KeepsWhatAnElementThatIsNotFiniteGives) {
  const Func before = triangle();
  Schedule s(before);
  skip_masked(s, {"sum"}, {tiled(s)});
  std::vector<float> a(64, 1), v(8, 1);
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    v[6] = odd;
    const std::vector<float> expected = run(before, a, v), found = run(s.func(), a, v);
    EXPECT_TRUE(std::isnan(expected[0]));
    for (size_t i = 0; i < 8; ++i)
      EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) << i;
  }
}

void expect_kept(Schedule& s, const LoopRef& loop, int condition, const std::string& suffix = "") {
  expect_refused(
      s, [&] { skip_masked(s, {"sum"}, {loop}); }, "skip_masked", condition,
      fmt::format("skip_masked_refused_{}{}", condition, suffix));
}

TEST(SkipMasked, RefusesAReductionThatStartsBelowTheLoop) {
  Schedule s(triangle());
  expect_kept(s, s.loop("sum", 1), 1);
}

TEST(SkipMasked, RefusesWeightsThatAreReadBehind) {
  Schedule s(triangle("select(vk <= vi, a[vi, vk], 0.0f32)", R"(for i2 in [0, 8) { for k2 in [0, 8) {
      block more(space xi in [0, 8) = i2, space xk in [0, 8) = k2) reads p[xi, xk] writes more[xi, xk] {
        more[xi, xk] = p[xi, xk] } } })"));
  const LoopRef loop = tiled(s);
  expect_kept(s, loop, 2);
}

TEST(SkipMasked, RefusesWhatAnEarlierIterationLeft) {
  Schedule s(parse_func(R"(func carried(a: f32[8, 8], out: f32[8]) stage begin {
  block root() reads a[..], out[..] writes out[..] {
    alloc p: f32[9]
    for i in [0, 8) {
      block start(space vs in [0, 8) = i) writes out[vs], p[0] { out[vs] = 0.0f32
        p[0] = 0.0f32 }
      for k in [0, 8) {
        block p(space vi in [0, 8) = i, ordered vk in [0, 8) = k) reads a[vi, vk] writes p[vk + 1] {
          p[vk + 1] = select(vk <= vi, a[vi, vk], 0.0f32) }
        block sum(space wi in [0, 8) = i, reduce wk in [0, 8) = k) reads out[wi], p[wk] writes out[wi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          let l: f32 = out[wi]
          let r: f32 = p[wk]
          out[wi] = l + r } } } } }
)"));
  expect_kept(s, s.loop("sum", 1), 3);
}

TEST(SkipMasked, RefusesTermsThatCountWithoutTheirMask) {
  for (const auto& [weight, suffix] : {std::pair("a[vi, vk]", ""),
                                       {"select(vk <= vi, a[vi, vk], 1.0f32)", "_one"},
                                       {"select(a[vi, vk] > 0.0f32, a[vi, vk], 0.0f32)", "_data"}}) {
    Schedule s(triangle(weight));
    const LoopRef loop = tiled(s);
    expect_kept(s, loop, 4, suffix);
  }
}

TEST(SkipMasked, SumsZerosBelowTheLoopsThatWriteTheOperand) {
  const Func before = parse_func(R"(func inside(a: f32[8, 8], x: f32[8], out: f32[8]) stage begin {
  block root() reads a[..], x[..], out[..] writes out[..] {
    alloc v: f32[8, 8]
    for i in [0, 8) {
      block start(space vs in [0, 8) = i) writes out[vs] { out[vs] = 0.0f32 }
      for j in [0, 8) {
        block v(space vv in [0, 8) = i, space vj in [0, 8) = j) reads x[vj] writes v[vv, vj] { v[vv, vj] = x[vj] } }
      for k in [0, 8) {
        block sum(space wi in [0, 8) = i, reduce wk in [0, 8) = k) reads out[wi], a[wi, wk], v[wi, wk] writes out[wi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          let l: f32 = out[wi]
          let r: f32 = select(wk <= wi, a[wi, wk], 0.0f32) * v[wi, wk]
          out[wi] = l + r } } } } }
)");
  Schedule s(before);
  skip_masked(s, {"sum"}, {s.loop("sum", 1)});
  expect_scheduled(s, before, "skip_masked_inside");
}

/// The sum of zeros would take in what lies between the elements of a layout with gaps.
TEST(SkipMasked, RefusesAnOperandWithGaps) {
  Schedule s(parse_func(R"(func gaps(a: f32[8, 8], x: f32[8], out: f32[8]) stage begin {
  block root() reads a[..], x[..], out[..] writes out[..] {
    alloc v: f32[15]
    for j in [0, 8) {
      block v(space vj in [0, 8) = j) reads x[vj] writes v[vj * 2] { v[vj * 2] = x[vj] } }
    for i in [0, 8) {
      block start(space vs in [0, 8) = i) writes out[vs] { out[vs] = 0.0f32 }
      for ko in [0, 2) { for k in [0, 4) {
        block sum(space wi in [0, 8) = i, reduce wk in [0, 8) = ko * 4 + k)
            reads out[wi], a[wi, wk], v[wk * 2] writes out[wi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          let l: f32 = out[wi]
          let r: f32 = select(wk <= wi, a[wi, wk], 0.0f32) * v[wk * 2]
          out[wi] = l + r } } } } } }
)"));
  expect_kept(s, s.loop("sum", 1), 5, "_gaps");
}

/// out[f, i] = the sum of x[c, i + r - 1] * w[f, c, r], zero outside of x, through a padded copy; filters come in tiles
/// of 4 whose weights are copied together.
Func window(int columns = 8, int taps = 3) {
  return parse_func(fmt::format(R"(func window(x: f32[2, {0}], w: f32[8, 2, {1}], out: f32[8, {0}]) stage begin {{
  block root() reads x[..], w[..], out[..] writes out[..] {{
    alloc padded: f32[2, {2}]
    for c in [0, 2) {{ for i in [0, {2}) {{
      block pad(space vc in [0, 2) = c, space vi in [0, {2}) = i) reads x[vc, vi - {3}] writes padded[vc, vi] {{
        padded[vc, vi] = select({3} <= vi && vi < {4}, x[vc, vi - {3} if {3} <= vi && vi < {4}], 0.0f32)
      }} }} }}
    for f in [0, 8) {{ for j in [0, {0}) {{ for c1 in [0, 2) {{ for r in [0, {1}) {{
      block sum(space wf in [0, 8) = f, space wj in [0, {0}) = j, reduce wc in [0, 2) = c1, reduce wr in [0, {1}) = r)
          reads out[wf, wj], padded[wc, wj + wr], w[wf, wc, wr] writes out[wf, wj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[wf, wj] = 0.0f32 }}
        let l: f32 = out[wf, wj]
        let t: f32 = padded[wc, wj + wr] * w[wf, wc, wr]
        out[wf, wj] = l + t
      }} }} }} }} }} }} }})",
                                columns, taps, columns + taps - 1, taps / 2, columns + taps / 2));
}

/// The sum over tiles of 4 filters: f, j, c1, r, then the filters of a tile.
void tile_window(Schedule& s) {
  const auto [fo, fi] = split(s, s.loop("sum", 0), 4);
  reorder(s, {fo, s.loop("sum", 2), s.loop("sum", 3), s.loop("sum", 4), fi});
  decompose_reduction(s, {"sum"}, s.loop("sum", 2));
}

TEST(SkipMasked, TakesTheBorderOfAPaddedCopyForAMask) {
  const Func before = window();
  Schedule s(before);
  tile_window(s);
  EXPECT_EQ(skip_masked(s, {"sum"}, {s.loop("sum", 3)}).size(), 1u);
  expect_scheduled(s, before, "skip_masked_border");
  Schedule filled(before);
  decompose_padding(filled, {"pad"}, filled.loop("pad", 1));
  tile_window(filled);
  skip_masked(filled, {"sum"}, {filled.loop("sum", 3)});
  expect_same(before, filled.func());
}

TEST(SkipMasked, LeavesOutWhatIsUnrolledToo) {
  const Func before = window(8, 5);
  Schedule s(before);
  const auto [fo, fi] = split(s, s.loop("sum", 0), 4);
  reorder(s, {fo, s.loop("sum", 3), s.loop("sum", 4), s.loop("sum", 2), fi});
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  unroll(s, s.loop("sum", 2));
  unroll(s, s.loop("sum", 3));
  skip_masked(s, {"sum"}, {s.loop("sum", 3)});
  expect_scheduled(s, before, "skip_masked_unrolled");
}

TEST(SkipMasked, AsksOnceForTheOperandOfSeveralLoops) {
  const Func before = window(24, 9);
  Schedule s(before);
  const auto [fo, fi] = split(s, s.loop("sum", 0), 4);
  const auto [jo, ji] = split(s, s.loop("sum", 2), 4);
  reorder(s, {fo, jo, s.loop("sum", 4), s.loop("sum", 5), ji, fi});
  decompose_reduction(s, {"sum"}, s.loop("sum", 2));
  EXPECT_EQ(skip_masked(s, {"sum"}, {s.loop("sum", 3), s.loop("sum", 4)}).size(), 1u);
  expect_scheduled(s, before, "skip_masked_loops");
}

TEST(SkipMasked, KeepsWhatWeightsThatAreNotFiniteGiveInTheBorder) {
  const Func before = window();
  Schedule s(before);
  tile_window(s);
  skip_masked(s, {"sum"}, {s.loop("sum", 3)});
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (size_t at = 0; at < 48; at += 7) {
      std::vector<float> x(16, 1), w(48, 1), expected(64), found(64);
      w[at] = odd;
      for (const auto& [func, out] : {std::pair(before, &expected), {s.func(), &found}}) {
        std::vector<HostBuffer> buffers;
        for (std::vector<float>* data : {&x, &w, out}) {
          auto* bytes = reinterpret_cast<std::byte*>(data->data());
          buffers.push_back({bytes, bytes, bytes + data->size() * sizeof(float)});
        }
        EXPECT_EQ(interpret(func, buffers, {}), 0);
      }
      for (size_t i = 0; i < 64; ++i)
        EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) << at << " " << i;
    }
  }
}

TEST(SkipMasked, TakesThePredicateOfACopyForAMask) {
  const Func before = parse_func(R"(func inside(x: f32[8], w: f32[3], out: f32[8]) stage begin {
  block root() reads x[..], w[..], out[..] writes out[..] {
    alloc padded: f32[10]
    for z in [0, 10) { block zero(space vz in [0, 10) = z) writes padded[vz] { padded[vz] = 0.0f32 } }
    for c in [0, 10) {
      block pad(space vc in [0, 10) = c) where 0 < c && c < 9 reads x[vc - 1] writes padded[vc] {
        padded[vc] = x[vc - 1 if 0 < vc && vc < 9] } }
    for i in [0, 8) { for k in [0, 3) {
      block sum(space vi in [0, 8) = i, reduce vk in [0, 3) = k) reads out[vi], padded[vi + vk], w[vk] writes out[vi] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vi] = 0.0f32 }
        let l: f32 = out[vi]
        let r: f32 = padded[vi + vk] * w[vk]
        out[vi] = l + r } } } } }
)");
  Schedule s(before);
  decompose_reduction(s, {"sum"}, s.loop("sum", 1));
  skip_masked(s, {"sum"}, {s.loop("sum", 1)});
  expect_same(before, s.func());
  EXPECT_NE(print(s.func()).find("if 0 < i + k_2 && i + k_2 < 9 || w_odd"), std::string::npos) << print(s.func());
}

/// Sums along the triangle, of which the operand of `term` is made by `made` in the loop over rows.
std::string rows_of(const std::string& allocated, const std::string& made, const std::string& operand) {
  return fmt::format(R"(func rows(a: f32[8, 8], x: f32[8], w: f32[2, 8], out: f32[8]) stage begin {{
  block root() reads a[..], x[..], w[..], out[..] writes out[..] {{
    {0}
    for i in [0, 8) {{
      block start(space vs in [0, 8) = i) writes out[vs] {{ out[vs] = 0.0f32 }}
      {1} for k in [0, 8) {{
        block sum(space wi in [0, 8) = i, reduce wk in [0, 8) = k) reads out[wi], a[wi, wk], {2} writes out[wi] {{
          reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
          let l: f32 = out[wi]
          let r: f32 = select(wk <= wi, a[wi, wk], 0.0f32) * {2}
          out[wi] = l + r }} }}{3} }} }} }})",
                     allocated, made, operand, made.find("if") == std::string::npos ? "" : " }");
}

TEST(SkipMasked, RefusesAnOperandThatIsWrittenByAnotherName) {
  Schedule s(parse_func(rows_of("alloc v: f32[8, 8] alloc u: f32[8, 8] view_of v[0:+8, 0:+8]",
                                "for j in [0, 8) { block v(space vv in [0, 8) = i, space vj in [0, 8) = j) reads x[vj] "
                                "writes v[vv, vj] { v[vv, vj] = x[vj] } }",
                                "u[wi, wk]")));
  expect_kept(s, s.loop("sum", 1), 4, "_view");
}

TEST(SkipMasked, SumsNothingThatAConditionKeepsFromBeingRead) {
  const Func before = parse_func(rows_of("", "if i < 2 {", "w[wi, wk]"));
  Schedule s(before);
  skip_masked(s, {"sum"}, {s.loop("sum", 1)});
  expect_same(before, s.func());
}

TEST(SkipMasked, RefusesACopyOfWhichMoreThanOneBlockWritesElements) {
  std::string text = print(window());
  text = replaced_all(text, "for f in [0, 8) {",
                      "block more() reads x[0, 0] writes padded[0, 0] { padded[0, 0] = x[0, 0] }\n for f in [0, 8) {");
  Schedule s(parse_func(text));
  tile_window(s);
  expect_kept(s, s.loop("sum", 3), 4, "_written");
}

}  // namespace
}  // namespace lathe::testing
