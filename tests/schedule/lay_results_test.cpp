#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// Sums over windows of an image whose channels come last; results lie channel by channel. Each of `filters` takes all
/// channels, or with none each channel is a filter of its own.
struct Windows {
  int channels, filters, rows;
  const char* weights;  ///< the indices of w
  int taps = 3;
};

Func channels_last(const Windows& shape) {
  const bool depthwise = shape.filters == 0;
  std::string extents;
  for (const char* c = shape.weights; *c; ++c) {
    if (*c != 'v') continue;
    const char name = c[1];
    extents += fmt::format("{}{}", extents.empty() ? "" : ", ",
                           name == 'f'   ? (depthwise ? shape.channels : shape.filters)
                           : name == 'c' ? shape.channels
                                         : shape.taps);
  }
  return parse_func(fmt::format(
      R"(func contraction(x: f32[{3}, {3}, {0}], w: f32[{4}], out: f32[{1}, {2}, {2}]) stage begin {{
  for f in [0, {1}) {{ for i in [0, {2}) {{ for j in [0, {2}) {{
    for c in [0, {5}) {{ for r in [0, {8}) {{ for s in [0, {8}) {{
      block product(space vf in [0, {1}) = f, space vi in [0, {2}) = i, space vj in [0, {2}) = j,
                    reduce vc in [0, {5}) = c, reduce vr in [0, {8}) = r, reduce vs in [0, {8}) = s)
          reads out[vf, vi, vj], w[{6}], x[vi + vr, vj + vs, {7}] writes out[vf, vi, vj]
      {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vf, vi, vj] = 0.0f32 }}
        let sum: f32 = out[vf, vi, vj]
        let term: f32 = x[vi + vr, vj + vs, {7}] * w[{6}]
        out[vf, vi, vj] = sum + term
      }} }} }} }} }} }} }}
}}
)",
      shape.channels, depthwise ? shape.channels : shape.filters, shape.rows, shape.rows + shape.taps - 1, extents,
      depthwise ? 1 : shape.channels, shape.weights, depthwise ? "vf" : "vc", shape.taps));
}

bool says(const Windows& shape, const Device& device, const std::string& decision) {
  return ("\n" + decisions_on(channels_last(shape), device, "product")).find("\n" + decision) != std::string::npos;
}

const std::string laid = "lay the results of product as its operand lies\n",
                  across = "lay the vectors of product across memory\n", tiled = "tile product: ";

TEST(LayResults, FollowsTheOperandWhereResultsLieInAnotherOrder) {
  for (const Device& device : {wide(), narrow()}) {
    for (const char* weights : {"vf, vr, vs", "vr, vs, vf"}) {
      SCOPED_TRACE(weights);
      EXPECT_TRUE(says({32, 0, 6, weights}, device, laid));
      EXPECT_TRUE(says({32, 0, 6, weights}, device, tiled));
    }
  }
}

TEST(LayResults, LeavesResultsThatTakeAsLongToTurnAround) {
  EXPECT_FALSE(says({32, 0, 6, "vf, vr, vs", 1}, wide(), laid));
}

TEST(LayResults, LeavesThemWhereOperandsFillNoVector) {
  EXPECT_FALSE(says({5, 0, 6, "vf, vr, vs"}, wide(), laid));
}

TEST(LayResults, LeavesThemWhereVectorsWalkBoth) {
  EXPECT_FALSE(says({32, 24, 6, "vf, vr, vs, vc"}, wide(), laid));
}

TEST(LayOperand, FollowsTheResultWhereVectorsCannotLieAcrossMemory) {
  // Without fused multiply-adds no vectors lie across memory.
  const std::string laid_operand = "lay x as the results of product lie\n";
  for (const char* weights : {"vf, vc, vr, vs", "vc, vr, vs, vf"}) {
    EXPECT_TRUE(says({20, 16, 20, weights}, narrow(), laid_operand)) << weights;
    EXPECT_TRUE(says({20, 16, 20, weights}, narrow(), tiled)) << weights;
  }
  EXPECT_FALSE(says({20, 16, 20, "vf, vr, vs, vc"}, narrow(), laid_operand)) << "vectors walk the reduction";
}

TEST(LayOperand, FollowsTheResultOfFewFiltersThatReadElementsAFewTimes) {
  EXPECT_TRUE(says({20, 2, 20, "vf, vc, vr, vs", 2}, narrow(), "lay x as the results of product lie\n"));
  EXPECT_TRUE(says({20, 2, 20, "vf, vc, vr, vs", 2}, narrow(), tiled));
}

TEST(LayOperand, WidensItFirst) {
  std::string text = print(channels_last({20, 16, 20, "vf, vc, vr, vs"}));
  for (const auto& [from, to] : {std::pair("x: f32[", "x: bf16["),
                                 std::pair("x[vi + vr, vj + vs, vc] *", "cast<f32>(x[vi + vr, vj + vs, vc]) *")}) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, std::string(from).size(), to);
  }
  const std::string decisions = decisions_on(parse_func(text), narrow(), "product");
  EXPECT_NE(decisions.find("widen x once for product\n"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("lay x_f32 as the results of product lie\n"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find(tiled), std::string::npos) << decisions;
}

TEST(VectorsAcross, WalkWeightsBesideAnImageWhoseChannelsComeLast) {
  Device device = wide();
  device.fused_multiply_add = true;
  // Few channels fill no vector of dot products; weights by filters let vectors walk neither them nor the result.
  EXPECT_TRUE(says({3, 32, 8, "vf, vr, vs, vc"}, device, across));
  EXPECT_TRUE(says({3, 32, 8, "vf, vc, vr, vs"}, device, across));
  EXPECT_TRUE(says({20, 32, 8, "vf, vc, vr, vs"}, device, across));
}

/// out[c, i, j] = sum of x[c, i * step + r, j * step + s] * w[c, r, s].
Func depthwise(int channels, int rows, int taps, int step) {
  return parse_func(fmt::format(
      R"(func contraction(x: f32[{0}, {3}, {3}], w: f32[{0}, {2}, {2}], out: f32[{0}, {1}, {1}]) stage begin {{
  for c in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {1}) {{ for r in [0, {2}) {{ for s in [0, {2}) {{
    block product(space vc in [0, {0}) = c, space vi in [0, {1}) = i, space vj in [0, {1}) = j,
                  reduce vr in [0, {2}) = r, reduce vs in [0, {2}) = s)
        reads out[vc, vi, vj], w[vc, vr, vs], x[vc, vi * {4} + vr, vj * {4} + vs] writes out[vc, vi, vj]
    {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vc, vi, vj] = 0.0f32 }}
      let sum: f32 = out[vc, vi, vj]
      let term: f32 = x[vc, vi * {4} + vr, vj * {4} + vs] * w[vc, vr, vs]
      out[vc, vi, vj] = sum + term
    }} }} }} }} }} }}
}}
)",
      channels, rows, taps, (rows - 1) * step + taps, step));
}

bool turns(int channels, int rows, int taps, int step) {
  const std::string decisions = decisions_on(depthwise(channels, rows, taps, step), wide(), "product");
  const bool found = decisions.find("turn the channels of x around for product\n") != std::string::npos;
  EXPECT_EQ(found, decisions.find(laid) != std::string::npos) << decisions;
  return found;
}

TEST(TurnChannels, BringsThemLastWhereShortRowsAreReadOften) {
  EXPECT_TRUE(turns(32, 12, 7, 1));
  EXPECT_TRUE(turns(47, 12, 7, 1)) << "few lanes of the last vector are idle";
  EXPECT_FALSE(turns(32, 12, 3, 1));
  EXPECT_FALSE(turns(32, 20, 7, 1)) << "rows fill vectors";
  EXPECT_FALSE(turns(20, 12, 7, 1)) << "channels do not";
  EXPECT_FALSE(turns(32, 6, 7, 2)) << "rows lie by steps";
}

/// out[n] = sum over k of v[k] * w[k, n // `group`], less what n says within the group, as of words that are unpacked.
Func unpacked(int group) {
  return parse_func(fmt::format(R"(
func unpacked(v: f32[40], w: f32[40, 48], out: f32[{0}]) stage begin {{
  block root() reads v[..], w[..], out[..] writes out[..] {{
    for n in [0, {0}) {{ for k in [0, 40) {{
      block sum(space vn in [0, {0}) = n, reduce vk in [0, 40) = k) reads v[vk], w[vk, ..], out[vn] writes out[vn] {{
        reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ out[vn] = 0.0f32 }}
        let l0: f32 = out[vn]
        let r0: f32 = v[vk] * select(vn % {1} < 1, w[vk, vn // {1}], w[vk, vn // {1}] * 2.0f32)
        out[vn] = l0 + r0
      }}
    }} }}
  }}
}}
)",
                                48 * group, group));
}

TEST(LayResults, OfGroupsThatShareElements) {
  for (const int group : {2, 4, 8}) {
    const std::string decided = decisions_on(unpacked(group), wide(), "sum");
    for (const std::string& decision : {fmt::format("split n of sum by groups of {}", group),
                                        std::string("lay the results of sum as its operand lies")})
      EXPECT_NE(decided.find(decision), std::string::npos) << decided;
    expect_scheduled_well(unpacked(group));
  }
}

}  // namespace
}  // namespace lathe::testing
