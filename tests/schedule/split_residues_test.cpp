#include "schedule/primitives/split_residues.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/error.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/split.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A sum for each of `points`, along `terms`, of elements of x times w; `choice` over vh and vr gives the element.
Func spread(const std::string& choice, int points = 10, int terms = 4, const std::string& dtype = "f32",
            const std::string& weight = "w[vc, {terms} - vr]") {
  const std::string zero = "0" + std::string(dtype[0] == 'f' ? ".0" : "") + dtype;
  const std::string factor = fmt::format(fmt::runtime(weight), fmt::arg("terms", terms - 1));
  return parse_func(fmt::format(R"(func spread(x: {2}[6], w: {2}[2, {1}], out: {2}[2, {0}]) stage begin {{
  block root() reads x[..], w[..], out[..] writes out[..] {{
    for c in [0, 2) {{ for h in [0, {0}) {{ for r in [0, {1}) {{
      block sum(space vc in [0, 2) = c, space vh in [0, {0}) = h, reduce vr in [0, {1}) = r)
          reads out[vc, vh], x[..], w[..] writes out[vc, vh] {{
        reducer (lhs: {2}) (rhs: {2}) {{lhs + rhs}} identity {{{3}}}
        init {{ out[vc, vh] = {3} }}
        let l: {2} = out[vc, vh]
        let t: {2} = {4} * {5}
        out[vc, vh] = l + t
      }}
    }} }} }}
  }}
}}
)",
                                points, terms, dtype, zero, choice, factor));
}

const std::string every_second =
    "select((vh + vr) % 2 == 0, select(0 < (vh + vr) // 2 && (vh + vr) // 2 < 7, "
    "x[(vh + vr) // 2 - 1 if 0 < (vh + vr) // 2 && (vh + vr) // 2 < 7], 0.0f32), 0.0f32)";

/// The element at (step * vh + terms' step * vr + offset) / modulus, where that is whole and x has it.
std::string element(int step, int reduce_step, int offset, int modulus) {
  const std::string at = fmt::format("(vh * {} + vr * {} + {})", step, reduce_step, offset);
  const std::string inside = fmt::format("0 <= {0} // {1} && {0} // {1} < 6", at, modulus);
  return fmt::format("select({0} % {1} == 0 && {2}, x[{0} // {1} if {2}], 0.0f32)", at, modulus, inside);
}

TEST(SplitResidues, MakesADenseSumForEach) {
  const Func before = spread(every_second);
  Schedule s(before);
  EXPECT_EQ(split_residues(s, {"sum"}).name, "sum_dense");
  expect_scheduled(s, before, "split_residues");
}

TEST(SplitResidues, CorrectsNothingWhereZeroTimesAnythingIsZero) {
  const Func before =
      spread("select((vh + vr) % 3 == 1 && vh + vr < 13, x[(vh + vr) // 3 if vh + vr < 13], 0i32)", 10, 4, "i32");
  Schedule s(before);
  split_residues(s, {"sum"});
  expect_scheduled(s, before, "split_residues_integers");
}

TEST(SplitResidues, TakesAnyStepsThatShareNoDivisor) {
  int split = 0;
  for (const int modulus : {2, 3, 4, 5}) {
    for (const int step : {1, 2, 3}) {
      for (const int reduce_step : {-3, -1, 1, 2, 5}) {
        if (std::gcd(reduce_step, modulus) != 1) continue;
        for (const int offset : {0, 1, -2}) {
          for (const int points : {5, 8, 9}) {
            for (const int terms : {5, 6}) {
              SCOPED_TRACE(fmt::format("{} {} {} {} {} {}", modulus, step, reduce_step, offset, points, terms));
              const Func before = spread(element(step, reduce_step, offset, modulus), points, terms);
              Schedule s(before);
              split_residues(s, {"sum"});
              expect_same(before, s.func());
              ++split;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(split, 500);
}

TEST(SplitResidues, TakesResiduesOfTheTermsWhereResultsHaveNone) {
  for (const int modulus : {2, 3, 4, 5, 6, 8}) {
    for (const int step : {1, 5, 7}) {
      for (const int reduce_step : {-3, -2, 1, 2, 4, 6}) {
        if (std::gcd(step, modulus) != 1) continue;
        for (const int offset : {0, 1, -2}) {
          for (const int points : {7, 12}) {
            for (const int terms : {1, 2, 5}) {
              if (terms >= modulus && std::gcd(reduce_step, modulus) == 1) continue;
              SCOPED_TRACE(fmt::format("{} {} {} {} {} {}", modulus, step, reduce_step, offset, points, terms));
              const Func before = spread(element(step, reduce_step, offset, modulus), points, terms);
              Schedule s(before);
              split_residues(s, {"sum"});
              expect_same(before, s.func());
            }
          }
        }
      }
    }
  }
  const Func before = spread(element(1, 2, 1, 5), 13, 3);
  Schedule s(before);
  split_residues(s, {"sum"});
  expect_scheduled(s, before, "split_residues_of_terms");
}

TEST(SplitResidues, TakesResiduesThatResultsAloneDecide) {
  for (const char* condition : {"vh % 3 == 1", "(vh * 2 + 1) % 5 < 1", "vh % 2 < 1"}) {
    SCOPED_TRACE(condition);
    const Func before = spread(fmt::format("select({}, x[vh // 3 + vr], 0.0f32)", condition), 10, 3);
    Schedule s(before);
    split_residues(s, {"sum"});
    expect_same(before, s.func());
  }
}

TEST(SplitResidues, TakesOneResidueHoweverTheConditionSaysSo) {
  for (const char* condition :
       {"(vh + vr) % 3 == 2", "(vh + vr) % 3 < 1", "1 < (vh + vr) % 3", "(vh + vr) % 2 < 1", "0 < (vh + vr) % 2"}) {
    SCOPED_TRACE(condition);
    const Func before = spread(fmt::format("select({}, x[(vh + vr) // 3], 0.0f32)", condition));
    Schedule s(before);
    split_residues(s, {"sum"});
    expect_same(before, s.func());
  }
}

std::vector<float> run(const Func& func, std::vector<float> w, int points) {
  std::vector<float> x(6, 1.0f), out(static_cast<size_t>(2 * points));
  std::vector<HostBuffer> buffers;
  for (std::vector<float>* data : {&x, &w, &out}) {
    auto* bytes = reinterpret_cast<std::byte*>(data->data());
    buffers.push_back({bytes, bytes, bytes + data->size() * sizeof(float)});
  }
  EXPECT_EQ(interpret(func, buffers, {}), 0);
  return out;
}

/// NaN and infinities among the weights spoil the results that they spoil without residues.
void expect_non_finite_kept(const std::string& choice, int points, int terms) {
  const Func before = spread(choice, points, terms);
  Schedule s(before);
  split_residues(s, {"sum"});
  for (size_t i = 0; i < static_cast<size_t>(2 * terms); ++i) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> w(static_cast<size_t>(2 * terms), 1.0f);
      w[i] = value;
      const std::vector<float> expected = run(before, w, points), found = run(s.func(), w, points);
      bool spoilt = false;
      for (size_t at = 0; at < expected.size(); ++at) {
        spoilt |= std::isnan(expected[at]);
        if (std::isnan(expected[at])) {
          EXPECT_TRUE(std::isnan(found[at])) << choice << " " << i << " " << at;
        } else {
          EXPECT_EQ(found[at], expected[at]) << choice << " " << i << " " << at;
        }
      }
      EXPECT_TRUE(spoilt);
    }
  }
}

TEST(SplitResidues, KeepsNaNAndInfinitiesOfWhatItLeavesOut) {
  expect_non_finite_kept(every_second, 10, 4);
  expect_non_finite_kept(element(1, 1, 0, 5), 13, 3);
  expect_non_finite_kept(element(1, 2, -1, 4), 10, 4);
  expect_non_finite_kept(element(1, 2, 0, 5), 10, 2);
  expect_non_finite_kept(element(1, 1, 0, 2), 10, 1);
  expect_non_finite_kept("select(vh % 3 == 1, x[vh // 3 + vr], 0.0f32)", 10, 3);
}

void expect_refusal(const Func& func, int condition, const std::string& suffix = "") {
  Schedule s(func);
  expect_refused(
      s, [&] { split_residues(s, {"sum"}); }, "split_residues", condition,
      fmt::format("split_residues_refused_{}{}", condition, suffix));
}

TEST(SplitResidues, RefusesWhatIsNoWholeSum) {
  Schedule s(spread(every_second));
  split(s, s.loop("sum", 1), 5);
  expect_refused(s, [&] { split_residues(s, {"sum"}); }, "split_residues", 1, "split_residues_refused_1");
}

TEST(SplitResidues, RefusesTermsThatNoResidueDecides) {
  expect_refusal(spread("select(vh + vr < 6, x[vh + vr if vh + vr < 6], 0.0f32)"), 2);
  expect_refusal(spread(element(2, 2, 0, 2)), 2, "_divisor");
  expect_refusal(spread("select((vh + vr) % 3 < 2, x[(vh + vr) // 3], 0.0f32)"), 2, "_several_residues");
  expect_refusal(spread("select((vh + vr) % 2 == 0, x[(vh + vr) // 4], 1.0f32)"), 2, "_not_zero");
  expect_refusal(spread(element(1, 1, 0, 2), 10, 4, "f32", "select((vh + vr) % 3 == 0, 1.0f32, 0.0f32)"), 2,
                 "_several");
}

TEST(SplitResidues, RefusesResiduesWithoutTerms) {
  expect_refusal(spread(element(2, 1, 0, 6)), 3);
  expect_refusal(spread("select((vh + vr) % 2 == 0 && (vh - vr) % 3 == 0, x[(vh + vr) // 4], 0.0f32)"), 3, "_twice");
}

TEST(SplitResidues, RefusesFactorsThatMoveWithThePoints) {
  expect_refusal(spread(element(1, 1, 0, 2), 10, 4, "f32", "w[vc, (vr + vh) % 4]"), 4);
}

/// A transposed convolution along one dimension, by a step of `stride`: x is spread out with zeros, then summed.
Func transposed(int stride, int points, int taps, const std::string& more = "") {
  const int wide = points + taps - 1, elements = (wide + stride - 1) / stride;
  return parse_func(fmt::format(R"(func transposed(x: f32[3, {0}], w: f32[3, 5, {1}], out: f32[5, {2}]) stage begin {{
  block root() reads x[..], w[..], out[..] writes out[..] {{
    alloc wide: f32[3, {3}]
    for c in [0, 3) {{ for i in [0, {3}) {{
      block wide(space vc in [0, 3) = c, space vi in [0, {3}) = i) reads x[vc, vi // {4}] writes wide[vc, vi] {{
        wide[vc, vi] = select(vi % {4} == 0{5}, x[vc, vi // {4}], 0.0f32)
      }}
    }} }}
    for k in [0, 5) {{ for h in [0, {2}) {{ for c1 in [0, 3) {{ for r in [0, {1}) {{
      block sum(space vk in [0, 5) = k, space vh in [0, {2}) = h, reduce vc1 in [0, 3) = c1, reduce vr in [0, {1}) = r)
          reads out[vk, vh], wide[vc1, vh + vr], w[vc1, vk, vr] writes out[vk, vh] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vk, vh] = 0.0f32 }}
        let l: f32 = out[vk, vh]
        let t: f32 = wide[vc1, vh + vr] * w[vc1, vk, vr]
        out[vk, vh] = l + t
      }}
    }} }} }} }}
  }}
}}
)",
                                elements, taps, points, wide, stride, more));
}

TEST(ResidueClasses, TilesADenseSumForEach) {
  for (const int stride : {2, 3}) {
    for (const int points : {12, 23, 40}) {
      for (const int taps : {3, 4}) {
        SCOPED_TRACE(fmt::format("{} {} {}", stride, points, taps));
        const Func func = transposed(stride, points, taps);
        EXPECT_NE(decisions_on(func, wide(), "sum").find("split sum by residues"), std::string::npos);
        EXPECT_NE(decisions_on(func, wide(), "sum_dense").find("tile sum_dense: "), std::string::npos);
        EXPECT_NE(decisions_on(func, narrow(), "sum").find("split sum by residues"), std::string::npos);
      }
    }
  }
  expect_golden(print(auto_schedule(transposed(2, 31, 3), wide())), "auto_residues.tir");
}

TEST(ResidueClasses, TurnsWeightsOfWhichATileTakesFewTaps) {
  const auto turns = [](int points, int taps, const Device& device) {
    const std::string decisions = decisions_on(transposed(2, points, taps), device, "sum_dense");
    return decisions.find("turn rows of w around") != std::string::npos;
  };
  EXPECT_TRUE(turns(200, 4, wide()));
  EXPECT_TRUE(turns(200, 4, narrow()));
  EXPECT_FALSE(turns(40, 4, wide()));   // weights are read too seldom
  EXPECT_FALSE(turns(200, 3, wide()));  // two of three taps are most
}

TEST(ResidueClasses, TakesNoTapsTogetherOfWhichResiduesHaveDifferentNumbers) {
  Device device = fused(wide(), 2);
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.issue_width = 4;
  for (const int taps : {9, 10}) {
    const std::string text = print(auto_schedule(transposed(2, 32000, taps), device));
    EXPECT_EQ(text.find("unrolled for r_quotient") != std::string::npos, taps == 10) << text;
  }
}

TEST(ResidueClasses, TilesOneForEachTermWhereResultsHaveNone) {
  for (const auto& [stride, taps] : {std::pair(3, 2), {2, 1}, {5, 3}}) {
    for (const int points : {12, 40, 61}) {
      SCOPED_TRACE(fmt::format("{} {} {}", stride, points, taps));
      const Func func = transposed(stride, points, taps);
      EXPECT_NE(decisions_on(func, wide(), "sum_dense").find("tile sum_dense: "), std::string::npos);
      expect_scheduled_well(func);
    }
  }
}

}  // namespace
}  // namespace lathe::testing
