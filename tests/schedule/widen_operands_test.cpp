#include <fmt/format.h>

#include <tuple>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/cache_cast.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[i, j] = sum over k of `term`, of a narrow a[i, k] and b[k, j].
Func narrow_product(int m, int n, int k, const std::string& type,
                    const std::string& term = "cast<f32>(a[vi, vk]) * cast<f32>(b[vk, vj])") {
  return parse_func(fmt::format(R"(func product(a: {3}[{0}, {2}], b: {3}[{2}, {1}], out: f32[{0}, {1}]) stage begin {{
  for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
    block product(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
        reads out[vi, vj], a[vi, vk], b[vk, vj] writes out[vi, vj]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj] = 0.0f32 }}
      let sum: f32 = out[vi, vj]
      let term: f32 = {4}
      out[vi, vj] = sum + term
    }} }} }} }}
}}
)",
                                m, n, k, type, term));
}

bool widens(const Func& func, const std::string& operand) {
  return decisions_on(func, wide(), "product").find(fmt::format("widen {} once for product", operand)) !=
         std::string::npos;
}

TEST(WidenOperands, CastsElementsOnceThatManyTilesRead) {
  for (const char* type : {"f16", "bf16"}) {
    const Func func = narrow_product(40, 70, 9, type);
    EXPECT_TRUE(widens(func, "a")) << type;
    EXPECT_TRUE(widens(func, "b")) << type;
    expect_scheduled_well(func);
  }
  // The last panel reaches beyond the operand's end: the panels of b are cast where they are read all the same.
  expect_golden(print(auto_schedule(narrow_product(40, 150, 9, "f16"), wide())), "auto_widened.tir");
}

TEST(WidenOperands, LeavesWhatFewTilesRead) {
  // Rows of which each reads all of b: a copy of it is written and read again for one or two tiles.
  EXPECT_FALSE(widens(narrow_product(8, 70, 9, "f16"), "b"));
  EXPECT_TRUE(widens(narrow_product(8, 70, 9, "f16"), "a"));
  EXPECT_FALSE(widens(narrow_product(40, 2, 9, "f16"), "a"));
  EXPECT_FALSE(widens(narrow_product(1, 70, 9, "f16"), "b"));
  // What is wide already.
  EXPECT_FALSE(widens(matmul(40, 70, 9, false), "a"));
}

TEST(WidenOperands, CastsRowsAsVectorsForFewColumnsWhereDotProductsDoNotPay) {
  EXPECT_TRUE(widens(narrow_product(40, 8, 9, "f16"), "a"));
  EXPECT_TRUE(widens(narrow_product(40, 12, 48, "f16"), "a"));
  EXPECT_FALSE(widens(narrow_product(40, 8, 400, "f16"), "a")) << "dot products cast vectors as it is";
  EXPECT_FALSE(widens(narrow_product(40, 4, 300, "f16"), "a"));
}

/// out[i, j] = sum over k of x[k, i] * x[k, j].
TEST(WidenOperands, LeavesAnArrayThatIsBothFactorsInItsPlace) {
  std::string text = replaced_all(print(narrow_product(8, 8, 2000, "f16")), "b[vk, vj]", "a[vk, vj]");
  text = replaced_all(replaced_all(text, "a[vi, vk]", "a[vk, vi]"), "a: f16[8, 2000]", "a: f16[2000, 8]");
  const Func func = parse_func(text);
  EXPECT_TRUE(says(decisions_on(func, wide(), "product"), "tile product")) << decisions_on(func, wide(), "product");
}

TEST(WidenOperands, EachCoreCastsAllThatItReads) {
  Device device = with_caches(1 << 20);
  device.cores = 2;
  const auto makes = [&](const Func& func, const char* operand) {
    return decides(func, device, fmt::format("make {}_f32 on each core", operand));
  };
  const Func even = narrow_product(256, 256, 200, "f16");
  EXPECT_TRUE(makes(even, "a"));
  EXPECT_NE(print(auto_schedule(even, device)).find("parallel for `1oo` in [0, 2)"), std::string::npos);
  const Func rows = narrow_product(399, 40, 373, "f16");
  EXPECT_TRUE(makes(rows, "b")) << "cores share out rows";
  // Uneven shares of rows, several panels: a is cast in parts that are rows, each core its own.
  const Func parts = narrow_product(159, 280, 121, "f16");
  EXPECT_TRUE(makes(parts, "b"));
  EXPECT_NE(print(auto_schedule(parts, device)).find("parallel for `0o` in [0, 2)"), std::string::npos)
      << print(auto_schedule(parts, device));
  EXPECT_FALSE(makes(narrow_product(128, 20, 20, "f16"), "b")) << "one core computes little";
  EXPECT_FALSE(makes(narrow_product(20, 64, 3000, "f16"), "a")) << "few columns read what is made";
  device.caches[1].bytes = 128 << 10;
  EXPECT_FALSE(makes(even, "a")) << "it does not stay near";
  device.caches[1].bytes = 1 << 20;
  device.cores = 3;
  EXPECT_FALSE(makes(even, "a")) << "shares of panels are uneven";
  device.cores = 1;
  EXPECT_FALSE(makes(even, "a"));
}

TEST(WidenOperands, WhatEachCoreCastsIsAsItWas) {
  Device device = with_caches(1 << 20);
  device.cores = 2;
  for (const auto& [m, n, k, made] :
       {std::tuple(70, 128, 57, "a"), std::tuple(131, 40, 149, "b"), std::tuple(64, 128, 130, "a")}) {
    const Func func = narrow_product(m, n, k, "f16");
    EXPECT_TRUE(decides(func, device, fmt::format("make {}_f32 on each core", made))) << m << " x " << n << " by " << k;
    expect_same_results(func, auto_schedule(func, device));
  }
}

/// out[b, i, j] = sum over k of x[b, k, i] * y[k, j], of narrow x alone.
Func batched_by_columns(int batch, int m, int n, int k) {
  return parse_func(fmt::format(R"(func product(x: f16[{0}, {3}, {1}], y: f32[{3}, {2}], out: f32[{0}, {1}, {2}])
    stage begin {{
  for b in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {2}) {{ for k in [0, {3}) {{
    block product(space vb in [0, {0}) = b, space vi in [0, {1}) = i, space vj in [0, {2}) = j,
                  reduce vk in [0, {3}) = k)
        reads out[vb, vi, vj], x[vb, vk, vi], y[vk, vj] writes out[vb, vi, vj]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vb, vi, vj] = 0.0f32 }}
      let sum: f32 = out[vb, vi, vj]
      let term: f32 = cast<f32>(x[vb, vk, vi]) * y[vk, vj]
      out[vb, vi, vj] = sum + term
    }} }} }} }} }}
}}
)",
                                batch, m, n, k));
}

TEST(WidenOperands, EachCoreCastsWhileAnotherOperandIsPackedForThePanelsOfAll) {
  Device device = fused(with_caches(1 << 20), 1);
  device.cores = 2;
  const Func func = batched_by_columns(4, 64, 2048, 100);
  EXPECT_TRUE(decides(func, device, "make x_f32 on each core")) << decisions_on(func, device, "product");
  EXPECT_TRUE(decides(func, device, "pack panels of y"));
}

TEST(WidenOperands, CoresShareWhatParallelCouldNotTellApartElse) {
  Device device = with_caches(1 << 20);
  device.cores = 2;
  // Windows of one core reach into those of another.
  const Func windows = parse_func(R"(func product(x: f16[16, 300], w: f16[64, 16, 3], out: f32[64, 300]) stage begin {
  for f in [0, 64) { for i in [0, 300) { for c in [0, 16) { for k in [0, 3) {
    block product(space vf in [0, 64) = f, space vi in [0, 300) = i, reduce vc in [0, 16) = c, reduce vk in [0, 3) = k)
        reads out[vf, vi], x[vc, vi + vk - 1], w[vf, vc, vk] writes out[vf, vi]
    {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vf, vi] = 0.0f32 }
      let sum: f32 = out[vf, vi]
      let term: f32 = select(0 < vi + vk && vi + vk < 301, cast<f32>(x[vc, vi + vk - 1 if 0 < vi + vk && vi + vk < 301]), 0.0f32) * cast<f32>(w[vf, vc, vk])
      out[vf, vi] = sum + term
    } } } } }
}
)");
  for (const char* made : {"w", "x"})
    EXPECT_FALSE(decides(windows, device, fmt::format("make {}_f32 on each core", made)));
  EXPECT_FALSE(decides(windows, device, "not parallel over "));
  // Rows shorter than a vector go on from one to the next, as one run.
  const Func rows = narrow_product(2000, 64, 20, "f16");
  EXPECT_TRUE(decides(rows, device, "make b_f32 on each core"));
  EXPECT_FALSE(decides(rows, device, "not parallel over "));
}

TEST(WidenOperands, PadsWhatItCasts) {
  // Each element is read seven times: too few for a wide copy of what is not padded.
  const char* format = R"(func windows(x: bf16[24, 30], w: f32[24, 7], out: f32[24, 30]) stage begin {{
  for c in [0, 24) {{ for i in [0, 30) {{ for k in [0, 7) {{
    block product(space vc in [0, 24) = c, space vi in [0, 30) = i, reduce vk in [0, 7) = k)
        reads out[vc, vi], x[vc, vi + vk - 3], w[vc, vk] writes out[vc, vi]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vc, vi] = 0.0f32 }}
      let sum: f32 = out[vc, vi]
      let term: f32 = select(2 < vi + vk && vi + vk < 33, cast<f32>(x[vc, {}]), 0.0f32) * w[vc, vk]
      out[vc, vi] = sum + term
    }} }} }} }}
}}
)";
  const Func padded = parse_func(fmt::format(fmt::runtime(format), "vi + vk - 3 if 2 < vi + vk && vi + vk < 33"));
  EXPECT_TRUE(widens(padded, "x"));
  const std::string decisions = decisions_on(padded, wide(), "x_f32");
  EXPECT_NE(decisions.find("pad x_f32 once for product"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("widen in the copy x_f32_pad"), std::string::npos) << decisions;
}

TEST(WidenOperands, CastsOnceWhatIsPaddedAndSetApartBySteps) {
  const auto casts = [](int step, int taps) {
    const Func func =
        parse_func(fmt::format(R"(func windows(x: bf16[24, {0}], w: f32[24, {2}], out: f32[24, 30]) stage begin {{
  for c in [0, 24) {{ for i in [0, 30) {{ for k in [0, {2}) {{
    block product(space vc in [0, 24) = c, space vi in [0, 30) = i, reduce vk in [0, {2}) = k)
        reads out[vc, vi], x[vc, vi * {1} + vk - 1], w[vc, vk] writes out[vc, vi]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vc, vi] = 0.0f32 }}
      let sum: f32 = out[vc, vi]
      let term: f32 = select(0 < vi * {1} + vk, cast<f32>(x[vc, vi * {1} + vk - 1 if 0 < vi * {1} + vk]), 0.0f32) * w[vc, vk]
      out[vc, vi] = sum + term
    }} }} }} }}
}}
)",
                               30 * step + taps, step, taps));
    expect_scheduled_well(func);
    return widens(func, "x");
  };
  EXPECT_TRUE(casts(2, 5));
  EXPECT_FALSE(casts(1, 5)) << "vectors walk it as it lies";
  EXPECT_FALSE(casts(4, 3)) << "most elements are not read at all";
}

TEST(CacheCast, CastsAPanelUnderALoop) {
  const Func before = narrow_product(5, 20, 12, "f16");
  Schedule s(before);
  const auto [jo, ji] = split(s, s.loop("product", 1), 8);
  reorder(s, {jo, s.loop("product", 0), ji});
  const BlockRef copy = cache_cast(s, {"product"}, "b", "global");
  EXPECT_EQ(copy.name, "b_cast");
  compute_at(s, copy, jo);
  expect_scheduled(s, before, "cache_cast");
}

TEST(CacheCast, RefusesWhatIsNotCastToOneType) {
  Schedule plain(program("matmul"));
  expect_refused(
      plain, [&] { cache_cast(plain, {"product"}, "b", "global"); }, "cache_cast", 1, "cache_cast_refused_1");
  for (const char* term : {"cast<f32>(a[vi, vk]) * cast<f32>(cast<f64>(a[vi, vk])) * cast<f32>(b[vk, vj])",
                           "cast<f32>(a[vi, vk] * b[vk, vj]) * cast<f32>(a[vi, vk])"}) {
    Schedule s(narrow_product(5, 20, 12, "f16", term));
    EXPECT_THROW(cache_cast(s, {"product"}, "a", "global"), Refusal) << term;
  }
}

TEST(CacheCast, RefusesABufferThatItsNestWrites) {
  Schedule s(parse_func(R"(func widened(x: f16[4, 8], out: f32[4, 8]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc twice: f16[4, 8]
    for i in [0, 4) {
      for j in [0, 8) {
        block double(space vi in [0, 4) = i, space vj in [0, 8) = j) reads x[vi, vj] writes twice[vi, vj] {
          twice[vi, vj] = x[vi, vj] + x[vi, vj]
        }
      }
      for k in [0, 8) {
        block widen(space vi in [0, 4) = i, space vj in [0, 8) = k) reads twice[vi, vj] writes out[vi, vj] {
          out[vi, vj] = cast<f32>(twice[vi, vj])
        }
      }
    }
  }
}
)"));
  expect_refused(s, [&] { cache_cast(s, {"widen"}, "twice", "global"); }, "cache_cast", 2, "cache_cast_refused_2");
}

}  // namespace
}  // namespace lathe::testing
