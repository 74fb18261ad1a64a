#include "schedule/primitives/hoist_factor.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "schedule/primitives/split.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Rows of v weighted by p; `term` over vi, vj and the sum's vk.
Func weighted(const std::string& term, const std::string& factor = "select(x[vi1] > 0.0f32, 2.0f32, -1.0f32)") {
  return parse_func(fmt::format(R"(func weighted(p: f32[3, 4], x: f32[3], v: f32[4, 5], out: f32[3, 5]) stage begin {{
  block root() reads p[..], x[..], v[..], out[..] writes out[..] {{
    alloc c: f32[3]
    for i1 in [0, 3) {{
      block c(space vi1 in [0, 3) = i1) reads x[vi1] writes c[vi1] {{ c[vi1] = {} }}
    }}
    for i in [0, 3) {{ for j in [0, 5) {{ for k in [0, 4) {{
      block mix(space vi in [0, 3) = i, space vj in [0, 5) = j, reduce vk in [0, 4) = k)
          reads out[vi, vj], p[vi, vk], c[..], v[vk, vj] writes out[vi, vj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi, vj] = 0.0f32 }}
        let l: f32 = out[vi, vj]
        let r: f32 = {}
        out[vi, vj] = l + r
      }}
    }} }} }}
  }}
}}
)",
                                factor, term));
}

TEST(HoistFactor, ScalesTheSumForItsTerms) {
  const Func before = weighted("-(p[vi, vk] * c[vi]) * v[vk, vj]");
  Schedule s(before);
  EXPECT_EQ(hoist_factor(s, {"mix"}, "c").name, "mix_scaled");
  expect_scheduled(s, before, "hoist_factor");
}

TEST(HoistFactor, DividesTheSumForItsTerms) {
  Schedule s(weighted("p[vi, vk] / c[vi] * v[vk, vj]", "1.0f32 + exp(x[vi1])"));
  hoist_factor(s, {"mix"}, "c");
  const Expr& value = s.node(BlockRef{"mix_scaled"}).f.body.as<Store>()->value;
  EXPECT_EQ(value.as<Binary>()->op, BinaryOp::div);
}

TEST(HoistFactor, RefusesWhatIsNoWholeSum) {
  Schedule s(weighted("p[vi, vk] * c[vi]"));
  split(s, s.loop("mix", 1), 2);
  expect_refused(s, [&] { hoist_factor(s, {"mix"}, "c"); }, "hoist_factor", 1, "hoist_factor_refused_1");
}

void expect_kept(const std::string& term, const std::string& suffix) {
  Schedule s(weighted(term));
  expect_refused(s, [&] { hoist_factor(s, {"mix"}, "c"); }, "hoist_factor", 2, "hoist_factor_refused_2" + suffix);
}

TEST(HoistFactor, RefusesWhatIsNoFactorOfTheWholeSum) {
  expect_kept("p[vi, vk] + c[vi]", "");
  expect_kept("p[vi, vk] * c[vk // 2]", "_along");
  expect_kept("p[vi, vk] * c[vi] * c[vi]", "_twice");
  expect_kept("p[vi, vk] / (c[vi] * v[vk, vj])", "_divisor");
}

TEST(HoistFactor, RefusesAFactorThatMayBeInfinite) {
  for (const auto& [term, suffix] : {std::pair("p[vi, vk] * c[vi]", ""), {"p[vi, vk] / c[vi]", "_divisor"}}) {
    Schedule s(weighted(term, std::string(suffix).empty() ? "exp(x[vi1])" : "sigmoid(x[vi1])"));
    expect_refused(
        s, [&] { hoist_factor(s, {"mix"}, "c"); }, "hoist_factor", 3, std::string("hoist_factor_refused_3") + suffix);
  }
}

/// One over the sum of exp(x - m) is at most 1 where m is the greatest x of the same row, and only there.
TEST(HoistFactor, KnowsWhatWeightsSumTo) {
  const auto softmax = [](const std::string& exponent) {
    return parse_func(fmt::format(R"(func softmax(s: f32[4, 6], v: f32[6, 5], out: f32[4, 5]) stage begin {{
  block root() reads s[..], v[..], out[..] writes out[..] {{
    alloc m: f32[4]
    alloc p: f32[4, 6]
    alloc l: f32[4]
    alloc c: f32[4]
    for i in [0, 4) {{ for k in [0, 6) {{
      block most(space vi in [0, 4) = i, reduce vk in [0, 6) = k) reads m[vi], s[vi, vk] writes m[vi] {{
        reducer (lhs: f32) (rhs: f32) {{max(lhs, rhs)}} identity {{-inf(f32)}}
        init {{ m[vi] = -inf(f32) }}
        let l0: f32 = m[vi]
        let r0: f32 = s[vi, vk]
        m[vi] = max(l0, r0) }} }} }}
    for i1 in [0, 4) {{ for k1 in [0, 6) {{
      block weigh(space vi1 in [0, 4) = i1, space vk1 in [0, 6) = k1) reads m[vi1], s[vi1, vk1] writes p[vi1, vk1] {{
        p[vi1, vk1] = exp2({}) }} }} }}
    for i2 in [0, 4) {{ for k2 in [0, 6) {{
      block total(space vi2 in [0, 4) = i2, reduce vk2 in [0, 6) = k2) reads l[vi2], p[vi2, vk2] writes l[vi2] {{
        reducer (lhs2: f32) (rhs2: f32) {{lhs2 + rhs2}} identity {{0.0f32}}
        init {{ l[vi2] = 0.0f32 }}
        let l1: f32 = l[vi2]
        let r1: f32 = p[vi2, vk2]
        l[vi2] = l1 + r1 }} }} }}
    for i4 in [0, 4) {{ block invert(space vi4 in [0, 4) = i4) reads l[vi4] writes c[vi4] {{ c[vi4] = 1.0f32 / l[vi4] }} }}
    for i3 in [0, 4) {{ for j in [0, 5) {{ for k3 in [0, 6) {{
      block mix(space vi3 in [0, 4) = i3, space vj in [0, 5) = j, reduce vk3 in [0, 6) = k3)
          reads out[vi3, vj], p[vi3, vk3], c[vi3], v[vk3, vj] writes out[vi3, vj] {{
        reducer (lhs3: f32) (rhs3: f32) {{lhs3 + rhs3}} identity {{0.0f32}}
        init {{ out[vi3, vj] = 0.0f32 }}
        let l2: f32 = out[vi3, vj]
        let r2: f32 = p[vi3, vk3] * c[vi3] * v[vk3, vj]
        out[vi3, vj] = l2 + r2 }} }} }} }} }} }}
)",
                                  exponent));
  };
  Schedule s(softmax("s[vi1, vk1] - m[vi1]"));
  EXPECT_EQ(hoist_factor(s, {"mix"}, "c").name, "mix_scaled");
  for (const char* other : {"s[vi1, vk1] - m[3 - vi1]", "s[vi1, 5 - vk1] * 2.0f32 - m[vi1]", "m[vi1] - s[vi1, vk1]"}) {
    Schedule kept(softmax(other));
    EXPECT_THROW(hoist_factor(kept, {"mix"}, "c"), Refusal) << other;
  }
}

}  // namespace
}  // namespace lathe::testing
